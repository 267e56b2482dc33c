package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// enoughMemory is how much room a file system in memory must have: all servers
// need about a sixth of it, and a load test fills more.
const enoughMemory = 2 << 30

// memoryDir is a folder in memory with enough room, or "".
func memoryDir() (string, error) {
	const dir = "/dev/shm"
	var stat syscall.Statfs_t
	err := syscall.Statfs(dir, &stat)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("measure %s: %w", dir, err)
	}
	if stat.Bavail*uint64(stat.Bsize) < enoughMemory || !software.Searchable(dir) {
		return "", nil
	}
	return dir, nil
}

const lockSuffix = ".lock"

// hold takes the lock beside a folder. It is the system's, so it ends with
// this program however that ends.
func hold(dir string) (unlock func(), err error) {
	path := dir + lockSuffix
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	// Between the two steps another run's sweep may have removed the file.
	if _, err := os.Stat(path); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		_ = os.Remove(path)
		_ = file.Close()
	}, nil
}

// sweep removes the folders whose runs are gone.
func sweep(base string) {
	locks, err := filepath.Glob(filepath.Join(base, prefix+"*"+lockSuffix))
	if err != nil {
		return
	}
	for _, path := range locks {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // another user's
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(strings.TrimSuffix(path, lockSuffix))
			_ = os.Remove(path)
		}
		_ = file.Close()
	}
}

// attach makes the command run as the account, in a process group of its own
// so that a terminal's interrupt does not reach it before its clients, and die
// of a signal when the thread that starts it ends. The kernel forgets that
// signal when a program changes its user by itself, as runuser does; here the
// user changes before the signal is set.
func attach(cmd *exec.Cmd, account *Account, last syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: last}
	if account != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(account.UID), Gid: uint32(account.GID)}
	}
}

// signal sends a signal to a server alone, or to what it has started as well.
func signal(process *os.Process, group bool, sig syscall.Signal) error {
	if group {
		return syscall.Kill(-process.Pid, sig)
	}
	return process.Signal(sig)
}
