package tickwheel_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
	"github.com/tickwheel/tickwheel/clients/go/tickwheeltest"
)

// documents contain Go programs, which this test runs. Pages of other languages have none.
func documents(t *testing.T) []string {
	pages, err := filepath.Glob("../../docs/clients/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("only %d pages, %v", len(pages), err)
	}
	return append([]string{"README.md"}, pages...)
}

var block = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestSnippets runs each program of the documents: a file with tests by `go test`, a worker until
// it has done a job, and every other program to its end.
func TestSnippets(t *testing.T) {
	ran := map[string]bool{}
	for _, document := range documents(t) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		blocks := block.FindAllStringSubmatch(string(text), -1)
		for _, match := range blocks {
			if ran[match[1]] {
				continue
			}
			ran[match[1]] = true
			line := 1 + strings.Count(string(text[:strings.Index(string(text), match[1])]), "\n")
			t.Run(fmt.Sprintf("%s_line_%d", filepath.Base(document), line), func(t *testing.T) { runSnippet(t, match[1]) })
		}
	}
	if len(ran) < 8 {
		t.Errorf("only %d programs were found", len(ran))
	}
}

func runSnippet(t *testing.T, source string) {
	module, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module snippet\n\ngo 1.24\n\nrequire github.com/tickwheel/tickwheel/clients/go v0.0.0\n\n"+
		"replace github.com/tickwheel/tickwheel/clients/go => "+module+"\n")
	if strings.Contains(source, "testing.T") {
		write("snippet_test.go", source)
		goCommand(t, directory, "test", ".")
		return
	}
	server := tickwheeltest.Start(t)
	write("main.go", strings.ReplaceAll(source, "http://127.0.0.1:7300", server.URL))
	goCommand(t, directory, "build", "-o", "snippet", ".")
	program := exec.Command(filepath.Join(directory, "snippet"))
	var output bytes.Buffer
	program.Stdout, program.Stderr = &output, &output
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Process.Kill()
	if strings.Contains(source, "worker.Run") {
		letItWork(t, server.Client())
		program.Process.Signal(syscall.SIGTERM)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &output)
	}
}

// letItWork puts an order and waits until a worker has closed it.
func letItWork(t *testing.T, client *tickwheel.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), guard)
	defer cancel()
	stream, err := client.Events(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if _, err := client.Put(ctx, tickwheel.NewJob{Queue: "orders", Payload: object{"order": 42}}); err != nil {
		t.Fatal(err)
	}
	for {
		event, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if event.Event == "acked" {
			return
		}
	}
}

func goCommand(t *testing.T, directory string, arguments ...string) {
	command := exec.Command("go", arguments...)
	command.Dir = directory
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
}
