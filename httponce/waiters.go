package httponce

import (
	"context"
	"sync"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

const (
	defaultWaiters       = 1000
	defaultWaitersPerKey = 10

	// A waiter looks by itself as well, because another server may finish the
	// key: soon at first, then ever less often.
	firstPoll = 250 * time.Millisecond
	lastPoll  = 2 * time.Second
)

// Waiters holds requests that asked to wait for their key's outcome
// ("Prefer: wait"). They wait in memory: no database connection is held
// between two looks. The zero value is ready to use.
type Waiters struct {
	Max       int // waiters in all; default 1000
	MaxPerKey int // waiters of one key; default 10

	mu     sync.Mutex
	total  int
	keys   map[onlyonce.Key]*waiting
	closed chan struct{} // made by the first Wait or Close
}

// waiting is who waits for one key.
type waiting struct {
	n    int
	wake chan struct{} // closed by the next Wake, which puts a new one in its place
}

// Wait calls look at once, after each [Waiters.Wake] of the key, and from time
// to time, until look is done, fails, or ctx is. It reports whether the wait
// was honoured: false, without a look, when there are too many waiters
// already. The end of ctx is no error; the caller then answers what it would
// have answered at once. look gets ctx, and an error of it that ctx caused is
// the end of the wait too.
func (w *Waiters) Wait(
	ctx context.Context, key onlyonce.Key, look func(ctx context.Context) (done bool, err error),
) (honoured bool, err error) {
	if !w.enter(key) {
		return false, nil
	}
	defer w.leave(key)
	pause := firstPoll
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		wake := w.signal(key) // before the look, so that no wake-up falls between the two
		done, err := look(ctx)
		if ctx.Err() != nil && err != nil {
			return true, nil
		}
		if done || err != nil {
			return true, err
		}
		select {
		case <-ctx.Done():
			return true, nil
		case <-w.end():
			return true, nil
		case <-wake:
		case <-timer.C:
			pause = min(pause*3/2, lastPoll)
		}
		timer.Reset(pause)
	}
}

// Wake makes everybody who waits for the key look again. Call it after the
// transaction that changed the key has been committed.
func (w *Waiters) Wake(key onlyonce.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.keys[key]; k != nil {
		close(k.wake)
		k.wake = make(chan struct{})
	}
}

// Close ends every wait, now and from now on, like the end of its ctx: the
// server is about to stop, and whoever waits is answered what is known now.
func (w *Waiters) Close() {
	end := w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-end:
	default:
		close(w.closed)
	}
}

func (w *Waiters) end() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed == nil {
		w.closed = make(chan struct{})
	}
	return w.closed
}

func (w *Waiters) enter(key onlyonce.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keys[key]
	if w.total >= limit(w.Max, defaultWaiters) || k != nil && k.n >= limit(w.MaxPerKey, defaultWaitersPerKey) {
		return false
	}
	if k == nil {
		k = &waiting{wake: make(chan struct{})}
		if w.keys == nil {
			w.keys = map[onlyonce.Key]*waiting{}
		}
		w.keys[key] = k
	}
	k.n++
	w.total++
	return true
}

func (w *Waiters) leave(key onlyonce.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keys[key]
	k.n--
	w.total--
	if k.n == 0 {
		delete(w.keys, key)
	}
}

func (w *Waiters) signal(key onlyonce.Key) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys[key].wake
}

func limit(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}
