// One run of Go's time.AfterFunc: --workload W and so on. Prints one line of JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	outcome, err := run(parsePlan())
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
