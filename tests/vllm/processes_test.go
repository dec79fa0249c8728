//go:build vllm

package vllm

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// descendants returns the processes below one, children and theirs.
func descendants(root int) []int {
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent := parentOf(pid); parent > 0 {
			children[parent] = append(children[parent], pid)
		}
	}
	var found []int
	for queue := children[root]; len(queue) > 0; queue = queue[1:] {
		found = append(found, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

// stat returns the fields of /proc/PID/stat after the command name, which may hold
// spaces: state, parent, ...
func stat(pid int) [][]byte {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}

func parentOf(pid int) int {
	fields := stat(pid)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// alive says whether a process runs; one that waits to be reaped does not.
func alive(pid int) bool {
	fields := stat(pid)
	return len(fields) > 0 && string(fields[0]) != "Z"
}
