//go:build unix

package software

import (
	"errors"
	"os"
	"syscall"
)

// ours refuses a folder in which somebody else could have put programs.
func ours(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 || !info.IsDir() {
		return errors.New("it is not a folder that only this user can write to")
	}
	return nil
}
