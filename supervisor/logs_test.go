package supervisor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/supervisor"
)

func TestLogsFollowFromLifeToLife(t *testing.T) {
	b := newBox(t)
	spec := b.spec(first, "-say", "one|half\r50%\rwhole|token is s3cret-value and hf_abcdefghijklmnopqrst")
	spec.Env["HF_TOKEN"] = "s3cret-value"
	// A binary built for coverage would write a line of its own without it.
	spec.Env["GOCOVERDIR"] = t.TempDir()
	b.Apply([]supervisor.Spec{spec})
	b.untilState(first, supervisor.Ready)
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan supervisor.LogLine, 100)
	done := make(chan error, 1)
	go func() {
		done <- b.Logs(ctx, first, supervisor.LogQuery{Tail: 100, Follow: true}, func(batch []supervisor.LogLine) error {
			for _, l := range batch {
				lines <- l
			}
			return nil
		})
	}()
	want := []string{"one", "half", "50%", "whole", "token is [secret] and [secret]", "INFO:     Application startup complete."}
	for life := uint64(1); life <= 2; life++ {
		for _, text := range want {
			if l := <-lines; l.Text != text || l.Incarnation != life || time.Since(l.Time) > time.Minute {
				t.Fatalf("line %+v, want %q of life %d", l, text, life)
			}
		}
		if life == 1 {
			if err := b.Restart(first); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var old []string
	err := b.Logs(t.Context(), first, supervisor.LogQuery{Tail: 2, Follow: true, Incarnation: 1}, func(batch []supervisor.LogLine) error {
		for _, l := range batch {
			old = append(old, l.Text)
		}
		return nil
	})
	if err != nil || !slices.Equal(old, want[4:]) {
		t.Errorf("the first life's end: %q, %v", old, err)
	}
	if err := b.Logs(t.Context(), first, supervisor.LogQuery{Incarnation: 9}, nil); !errors.Is(err, supervisor.ErrNoLog) {
		t.Errorf("a life that never was: %v", err)
	}
}
