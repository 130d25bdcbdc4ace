package main

// The work, the same in every language: see ../README.md. Made before any clock starts.

const (
	micro = int64(1_000)
	milli = int64(1_000_000)
	dayMs = 86_400_000
)

// random is splitmix64.
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9E3779B97F4A7C15
	z := r.state
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// below gives a number less than bound, which is less than 2^32.
func (r *random) below(bound uint64) uint64 {
	return ((r.next() >> 32) * bound) >> 32
}

func (r *random) far() int64 {
	return int64(60_000 + r.below(3_540_001))
}

// delays makes a delay in nanoseconds for each timer.
func delays(p plan, one func(r *random) int64) []int64 {
	r := random{p.seed + 1}
	all := make([]int64, p.timers)
	for i := range all {
		all[i] = one(&r)
	}
	return all
}

// farDelays are 60 s to 3600 s.
func farDelays(p plan) []int64 {
	return delays(p, func(r *random) int64 { return r.far() * milli })
}

// tomorrow is in one to two days.
func tomorrow(p plan) []int64 {
	return delays(p, func(r *random) int64 { return int64(dayMs+r.below(dayMs)) * milli })
}

// soon is within the span after the lead.
func soon(p plan) []int64 {
	return delays(p, func(r *random) int64 {
		return p.leadMs*milli + int64(r.below(uint64(p.spanMs*1_000)))*micro
	})
}

// steady is a delay every 100 µs of the span after the lead.
func steady(p plan) []int64 {
	all := make([]int64, p.spanMs*10)
	for i := range all {
		all[i] = p.leadMs*milli + int64(i)*100*micro
	}
	return all
}

// order has every index once, shuffled.
func order(p plan) []int32 {
	r := random{p.seed + 2}
	all := make([]int32, p.timers)
	for i := range all {
		all[i] = int32(i)
	}
	for i := len(all) - 1; i > 0; i-- {
		other := r.below(uint64(i) + 1)
		all[i], all[other] = all[other], all[i]
	}
	return all
}

// moves says which timers move, and to which delay in milliseconds.
func moves(p plan) (index, delayMs []int32) {
	r := random{p.seed + 3}
	index = make([]int32, p.moves)
	delayMs = make([]int32, p.moves)
	for i := range index {
		index[i] = int32(r.below(uint64(p.timers)))
		delayMs[i] = int32(r.far())
	}
	return index, delayMs
}

// checksum is equal for systems that were given the same work.
func checksum[T int32 | int64](sum uint64, values []T) uint64 {
	for _, value := range values {
		sum = sum*31 + uint64(value)
	}
	return sum
}
