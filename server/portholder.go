package server

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stateListen is the state of a listening socket in /proc/net/tcp.
const stateListen = "0A"

// portHolder names the process that listens on a TCP port, "nginx (pid 812)", or
// returns an empty text when that cannot be told, as for another user's process.
// Root is /proc.
func portHolder(root string, port int) string {
	inodes := make(map[string]bool)
	for _, table := range []string{"tcp", "tcp6"} {
		listeningInodes(filepath.Join(root, "net", table), port, inodes)
	}
	if len(inodes) == 0 {
		return ""
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && holdsSocket(root, pid, inodes) {
			return processName(root, pid)
		}
	}
	return ""
}

// listeningInodes collects the sockets that listen on port from one table of the
// kernel, whose lines hold local address, remote address, state, ..., inode.
func listeningInodes(table string, port int, into map[string]bool) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != stateListen {
			continue
		}
		_, hex, ok := strings.Cut(fields[1], ":")
		if !ok {
			continue
		}
		if p, err := strconv.ParseUint(hex, 16, 16); err == nil && int(p) == port {
			into["socket:["+fields[9]+"]"] = true
		}
	}
}

func holdsSocket(root string, pid int, sockets map[string]bool) bool {
	dir := filepath.Join(root, strconv.Itoa(pid), "fd")
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && sockets[target] {
			return true
		}
	}
	return false
}

func processName(root string, pid int) string {
	name, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "comm"))
	if err != nil {
		return fmt.Sprintf("pid %d", pid)
	}
	return fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(name)), pid)
}
