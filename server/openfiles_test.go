package server

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckOpenFiles(t *testing.T) {
	tests := map[string]struct {
		limit uint64
		err   error
		ok    bool
		want  string
	}{
		"far too few": {64, nil, false, "may have 64 open"},
		"too few":     {4095, nil, false, "beyond 2047 requests at once"},
		"enough":      {4096, nil, true, "4096"},
		"unlimited":   {1<<64 - 1, nil, true, ""},
		"not known":   {0, errors.New("no such call"), false, "no such call"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := checkOpenFiles(test.limit, test.err)
			if got.GetOk() != test.ok || !strings.Contains(got.GetMessage(), test.want) || test.ok != (got.GetFix() == "") {
				t.Errorf("got %v; want ok %t with %q", got, test.ok, test.want)
			}
		})
	}
	if limit, err := openFiles(); err != nil || limit < 3 {
		t.Errorf("this process may have %d open, %v", limit, err)
	}
}
