// Package tickwheeltest helps to test code that uses Tickwheel: [Start] runs the real server on a
// manual clock, and [NewFake] answers from memory, without a process.
package tickwheeltest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
)

// Server is a real Tickwheel server on a manual clock, with a data directory of its own.
type Server struct {
	// URL is its address, such as http://127.0.0.1:41234.
	URL string

	t         testing.TB
	arguments []string
	process   *exec.Cmd
	ended     chan error
	client    *tickwheel.Client
}

// startTimeout is a guard against a server that hangs.
const startTimeout = 60 * time.Second

// Start starts a server and stops it at the end of the test. The binary is $TICKWHEEL_BIN, or
// tickwheel on the path. The arguments are further ones of `tickwheel serve`.
func Start(t testing.TB, arguments ...string) *Server {
	t.Helper()
	return start(t, "manual", arguments)
}

// StartOnSystemClock starts a server as [Start] does, on the clock of the system.
func StartOnSystemClock(t testing.TB, arguments ...string) *Server {
	t.Helper()
	return start(t, "system", arguments)
}

func start(t testing.TB, clock string, arguments []string) *Server {
	t.Helper()
	s := &Server{t: t}
	s.arguments = append([]string{
		"serve", "--clock", clock, "--access-log", "none", "--data", t.TempDir(),
	}, arguments...)
	s.start("127.0.0.1:0")
	t.Cleanup(s.kill)
	client, err := tickwheel.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s.client = client
	return s
}

// Client returns a client of the server.
func (s *Server) Client() *tickwheel.Client { return s.client }

// Advance advances the clock. It returns when everything that is due at the new time is done.
func (s *Server) Advance(by time.Duration) {
	s.t.Helper()
	if _, err := s.client.Advance(context.Background(), by); err != nil {
		s.t.Fatal(err)
	}
}

// Restart stops the server, without warning if kill is true, and starts it again with the same data
// at the same address.
func (s *Server) Restart(kill bool) {
	s.t.Helper()
	if kill {
		s.kill()
	} else {
		s.process.Process.Signal(syscall.SIGTERM)
		s.wait()
	}
	s.start(strings.TrimPrefix(s.URL, "http://"))
}

func binary() string {
	if path := os.Getenv("TICKWHEEL_BIN"); path != "" {
		return path
	}
	return "tickwheel"
}

func (s *Server) start(listen string) {
	s.t.Helper()
	s.process = exec.Command(binary(), append(s.arguments, "--listen", listen)...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TICKWHEEL_") {
			s.process.Env = append(s.process.Env, variable)
		}
	}
	stderr, err := s.process.StderrPipe()
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		s.t.Fatalf("cannot start the server: %v; set TICKWHEEL_BIN to the path of the binary", err)
	}
	address := make(chan string, 1)
	s.ended = make(chan error, 1)
	go s.watch(bufio.NewReader(stderr), address)
	select {
	case s.URL = <-address:
		if s.URL == "" {
			s.t.Fatal("the server ended before it listened")
		}
	case <-time.After(startTimeout):
		s.kill()
		s.t.Fatalf("the server did not listen within %v", startTimeout)
	}
}

// watch reports the address and keeps reading, so that the pipe never fills.
func (s *Server) watch(stderr *bufio.Reader, address chan<- string) {
	var log strings.Builder
	for {
		line, err := stderr.ReadString('\n')
		if _, after, found := strings.Cut(line, "listening on "); found {
			address <- strings.Fields(after)[0]
			break
		}
		log.WriteString(line)
		if err != nil {
			fmt.Fprint(os.Stderr, log.String())
			break
		}
	}
	io.Copy(io.Discard, stderr)
	close(address)
	s.ended <- s.process.Wait()
}

func (s *Server) kill() {
	s.process.Process.Kill()
	s.wait()
}

// wait returns when the process has ended.
func (s *Server) wait() {
	select {
	case err := <-s.ended:
		s.ended <- err // For the next caller.
	case <-time.After(startTimeout):
		s.process.Process.Kill()
		s.t.Errorf("the server did not end within %v", startTimeout)
	}
}
