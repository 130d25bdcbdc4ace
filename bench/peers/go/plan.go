package main

import "flag"

// plan is what to run, from the command line: see ../README.md.
type plan struct {
	workload string
	timers   int
	seed     uint64
	moves    int
	leadMs   int64
	spanMs   int64
	idleMs   int64
}

func parsePlan() plan {
	var p plan
	flag.StringVar(&p.workload, "workload", "", "what to do")
	flag.IntVar(&p.timers, "timers", 0, "how many timers")
	flag.Uint64Var(&p.seed, "seed", 0, "what the work is made from")
	flag.IntVar(&p.moves, "moves", 0, "how many timers move")
	flag.Int64Var(&p.leadMs, "lead-ms", 0, "the time before the first fires")
	flag.Int64Var(&p.spanMs, "span-ms", 0, "the time in which all fire")
	flag.Int64Var(&p.idleMs, "idle-ms", 0, "how long nothing is done")
	flag.Parse()
	return p
}
