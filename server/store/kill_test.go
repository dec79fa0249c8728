package store_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/server/store"
)

// killChild names the database that a child process writes to until it is killed.
const killChild = "LMWARDEN_STORE_KILL_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(killChild); path != "" {
		if err := writeForEver(path); err != nil {
			fmt.Println("failed:", err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver changes two models alternately and tells each change that is on the
// disk.
func writeForEver(path string) error {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("m%d", n%2)
		// The size varies so that pages split, merge and are freed.
		data := []byte(strings.Repeat(name+" ", n%4000+1))
		rev, err := s.UpdateModel(name, 0, data)
		if err != nil {
			return err
		}
		fmt.Println(name, rev)
	}
}

// A daemon is killed with -9 in the middle of its writes, many times over: whatever it
// said was stored is there, nothing is half there, and the file opens.
func TestKillAtAnyMoment(t *testing.T) {
	path := dbPath(t)
	s := open(t, path)
	for _, name := range []string{"m0", "m1"} {
		if _, err := s.CreateModel(name, []byte(name+" ")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	told := map[string]uint64{"m0": 1, "m1": 1}
	for round := range 24 {
		writeAndKill(t, path, round, told)
		s := open(t, path)
		records, err := s.Models()
		if err != nil || len(records) != 2 {
			t.Fatalf("round %d: %d records, %v", round, len(records), err)
		}
		for _, r := range records {
			if r.Broken != nil {
				t.Fatalf("round %d: %s is broken: %v", round, r.Name, r.Broken)
			}
			// One change may be on the disk whose message never came.
			if r.Revision < told[r.Name] || r.Revision > told[r.Name]+1 {
				t.Fatalf("round %d: %s is at revision %d, told was %d", round, r.Name, r.Revision, told[r.Name])
			}
			if strings.Trim(strings.ReplaceAll(string(r.Data), r.Name+" ", ""), " ") != "" {
				t.Fatalf("round %d: %s holds a mixture", round, r.Name)
			}
			told[r.Name] = r.Revision
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// writeAndKill kills the child after a number of changes that differs by round, so
// that the kill meets every phase of a transaction. Told takes what the child said.
func writeAndKill(t *testing.T, path string, round int, told map[string]uint64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killChild+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for n, lines := 0, bufio.NewScanner(out); lines.Scan(); n++ {
		name, rev, ok := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseUint(rev, 10, 64)
		if !ok || err != nil {
			t.Fatalf("round %d: the child said %q", round, lines.Text())
		}
		told[name] = number
		if n == 3+7*round%40 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("round %d: the child ended by itself: %v", round, err)
	}
}
