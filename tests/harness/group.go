package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Group returns the living processes of a process group, by process id, with their
// short names: what the kernel keeps of a title, at most 15 bytes.
func Group(pgid int) map[int]string {
	found := map[int]string{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return found
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // it has gone meanwhile
		}
		// PID (NAME) STATE PARENT GROUP ...; the name may hold spaces and parentheses.
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[end+1:]))
		if len(fields) < 3 || fields[0] == "Z" || fields[2] != strconv.Itoa(pgid) {
			continue
		}
		found[pid] = string(stat[open+1 : end])
	}
	return found
}
