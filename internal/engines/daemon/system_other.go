//go:build !linux

package daemon

import (
	"os"
	"os/exec"
	"syscall"
)

// memoryDir knows no folder in memory here.
func memoryDir() (string, error) { return "", nil }

// hold and sweep need the lock of Linux: what a killed run leaves stays here.
func hold(string) (unlock func(), err error) { return func() {}, nil }

func sweep(string) {}

// attach can neither change the user nor tie a server's life to this program's
// here: servers run as the user who starts them, and survive a kill -9.
func attach(*exec.Cmd, *Account, syscall.Signal) {}

func signal(process *os.Process, _ bool, sig syscall.Signal) error { return process.Signal(sig) }
