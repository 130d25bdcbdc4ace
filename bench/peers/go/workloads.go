package main

import (
	"fmt"
	"runtime"
	"time"
)

// mostCalmMs is how long a process gets to calm down before it is watched doing nothing.
const mostCalmMs = 1_000

// outcome is what a run prints.
type outcome struct {
	Checksum uint64             `json:"checksum"`
	Figures  map[string]float64 `json:"figures"`
}

func (o *outcome) perOperation(name string, r reading, operations int) {
	o.Figures[name+"-cpu"] = r.cpuNs / float64(operations)
	o.Figures[name+"-wall"] = r.wallNs / float64(operations)
}

// run does what the plan says.
func run(p plan) (outcome, error) {
	o := outcome{Figures: map[string]float64{}}
	workloads := map[string]func(plan) error{
		"schedule":      o.schedule,
		"cancel":        o.cancel,
		"churn":         o.churn,
		"reset":         o.reset,
		"two-producers": o.twoProducers,
		"fire":          o.fire,
		"idle":          o.idle,
		"memory":        o.memory,
		"blocked":       o.blocked,
	}
	work, ok := workloads[p.workload]
	if !ok {
		return o, fmt.Errorf("no workload %q", p.workload)
	}
	err := work(p)
	return o, err
}

// after schedules a task that captures two words.
func after(delay, index, deadline int64) *time.Timer {
	return time.AfterFunc(time.Duration(delay), func() { record(index, deadline) })
}

// scheduleAll schedules the tasks with indices from from up to to.
func scheduleAll(delays []int64, handles []*time.Timer, from, to int) {
	for i := from; i < to; i++ {
		handles[i] = after(delays[i], int64(i), 0)
	}
}

// settle waits until a timer that is due at once has fired.
func settle() {
	done := make(chan struct{})
	time.AfterFunc(0, func() { close(done) })
	<-done
}

func (o *outcome) schedule(p plan) error {
	delays := farDelays(p)
	o.Checksum = checksum(0, delays)
	handles := make([]*time.Timer, p.timers)
	runtime.GC()
	m := startMeter()
	scheduleAll(delays, handles, 0, len(delays))
	settle()
	o.perOperation("schedule", m.stop(), len(delays))
	runtime.KeepAlive(handles)
	return nil
}

func (o *outcome) cancel(p plan) error {
	delays := farDelays(p)
	order := order(p)
	o.Checksum = checksum(checksum(0, delays), order)
	handles := make([]*time.Timer, p.timers)
	scheduleAll(delays, handles, 0, len(delays))
	atHand := make([]*time.Timer, p.timers)
	for i, index := range order {
		atHand[i] = handles[index]
	}
	handles = nil
	runtime.GC()
	refused := 0
	m := startMeter()
	for i, timer := range atHand {
		if !timer.Stop() {
			refused++
		}
		atHand[i] = nil
	}
	settle()
	o.perOperation("cancel", m.stop(), len(order))
	return noneRefused(refused)
}

func noneRefused(refused int) error {
	if refused > 0 {
		return fmt.Errorf("%d pending timers were not cancelled or reset", refused)
	}
	return nil
}

func (o *outcome) churn(p plan) error {
	return o.move(p, "churn", func(handle **time.Timer, index, delay int64) bool {
		pending := (*handle).Stop()
		*handle = after(delay, index, 0)
		return pending
	})
}

func (o *outcome) reset(p plan) error {
	return o.move(p, "reset", func(handle **time.Timer, _, delay int64) bool {
		return (*handle).Reset(time.Duration(delay))
	})
}

func (o *outcome) move(p plan, name string, one func(**time.Timer, int64, int64) bool) error {
	delays := farDelays(p)
	index, delayMs := moves(p)
	o.Checksum = checksum(checksum(checksum(0, delays), index), delayMs)
	handles := make([]*time.Timer, p.timers)
	scheduleAll(delays, handles, 0, len(delays))
	runtime.GC()
	refused := 0
	m := startMeter()
	for i, at := range index {
		if !one(&handles[at], int64(at), int64(delayMs[i])*milli) {
			refused++
		}
	}
	settle()
	o.perOperation(name, m.stop(), p.moves)
	return noneRefused(refused)
}

func (o *outcome) twoProducers(p plan) error {
	delays := farDelays(p)
	o.Checksum = checksum(0, delays)
	handles := make([]*time.Timer, p.timers)
	half := len(delays) / 2
	runtime.GC()
	done := make(chan struct{})
	m := startMeter()
	go func() {
		scheduleAll(delays, handles, half, len(delays))
		close(done)
	}()
	scheduleAll(delays, handles, 0, half)
	<-done
	settle()
	o.perOperation("two-producers", m.stop(), len(delays))
	runtime.KeepAlive(handles)
	return nil
}

func (o *outcome) memory(p plan) error {
	delays := tomorrow(p)
	o.Checksum = checksum(0, delays)
	settle()
	heap, pages := liveHeap(), resident()
	for i, delay := range delays {
		after(delay, int64(i), 0)
	}
	settle()
	grown := resident() - pages
	o.Figures["memory"] = (liveHeap() - heap) / float64(p.timers)
	o.Figures["memory-resident"] = grown / float64(p.timers)
	runtime.KeepAlive(delays)
	return nil
}

func (o *outcome) idle(p plan) error {
	delays := tomorrow(p)
	o.Checksum = checksum(0, delays)
	handles := make([]*time.Timer, p.timers)
	settle()
	o.doNothing(p, "idle-empty")
	scheduleAll(delays, handles, 0, len(delays))
	settle()
	runtime.GC()
	o.doNothing(p, "idle-full")
	runtime.KeepAlive(handles)
	return nil
}

// doNothing takes what the process does while nothing is due, once it has calmed down.
func (o *outcome) doNothing(p plan, name string) {
	time.Sleep(time.Duration(min(p.idleMs, mostCalmMs)) * time.Millisecond)
	m := startMeter()
	time.Sleep(time.Duration(p.idleMs) * time.Millisecond)
	r := m.stop()
	seconds := r.wallNs / 1e9
	o.Figures[name+"-cpu"] = r.cpuNs / 1e6 / seconds
	o.Figures[name+"-switches"] = r.switches / seconds
}

func (o *outcome) fire(p plan) error {
	delays := soon(p)
	o.Checksum = checksum(0, delays)
	prepareLateness(len(delays))
	runtime.GC()
	last, err := scheduleFiring(p, delays, func(_ int, delay, index, deadline int64) {
		after(delay, index, deadline)
	})
	if err != nil {
		return err
	}
	m := startMeter()
	if err := awaitAll(last); err != nil {
		return err
	}
	o.Figures["fire-cpu"] = m.stop().cpuNs / 1e9
	sorted := sortedLateness(func(int) bool { return false })
	o.latenesses("fire", sorted)
	early := 0
	for early < len(sorted) && sorted[early] < 0 {
		early++
	}
	o.Figures["fire-early"] = float64(early)
	return nil
}

// scheduleFiring schedules tasks that know their deadline, and says which is the last deadline.
func scheduleFiring(p plan, delays []int64, schedule func(i int, delay, index, deadline int64)) (int64, error) {
	began := now()
	last := began
	for i, delay := range delays {
		deadline := now() + delay
		schedule(i, delay, int64(i), deadline)
		last = max(last, deadline)
	}
	if took := (now() - began) / milli; took > p.leadMs {
		return last, fmt.Errorf("scheduling took %d ms, so that the first fired meanwhile", took)
	}
	return last, nil
}

func (o *outcome) latenesses(name string, sorted []int64) {
	o.Figures[name+"-p50"] = quantile(sorted, 0.5)
	o.Figures[name+"-p99"] = quantile(sorted, 0.99)
	o.Figures[name+"-p999"] = quantile(sorted, 0.999)
	o.Figures[name+"-max"] = quantile(sorted, 1)
}

func (o *outcome) blocked(p plan) error {
	delays := steady(p)
	o.Checksum = checksum(0, delays)
	prepareLateness(len(delays))
	runtime.GC()
	blocks := func(index int) bool { return index%1_000 == 500 }
	last, err := scheduleFiring(p, delays, func(i int, delay, index, deadline int64) {
		if !blocks(i) {
			after(delay, index, deadline)
			return
		}
		time.AfterFunc(time.Duration(delay), func() {
			record(index, deadline)
			time.Sleep(blockFor)
		})
	})
	if err != nil {
		return err
	}
	if err := awaitAll(last); err != nil {
		return err
	}
	o.latenesses("blocked", sortedLateness(blocks))
	return nil
}
