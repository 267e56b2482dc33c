package httponce_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
)

var someKey = onlyonce.Key{Account: "A", Name: "K"}

func never(context.Context) (bool, error) { return false, nil }

func TestWaiterLooksAtOnce(t *testing.T) {
	var w httponce.Waiters
	honoured, err := w.Wait(t.Context(), someKey, func(context.Context) (bool, error) { return true, nil })
	if !honoured || err != nil {
		t.Error(honoured, err)
	}
	broken := errors.New("broken")
	_, err = w.Wait(t.Context(), someKey, func(context.Context) (bool, error) { return false, broken })
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestWaiterIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w httponce.Waiters
		start, done := time.Now(), false
		go func() {
			synctest.Wait()
			w.Wake(onlyonce.Key{Account: "B", Name: "K"}) // another's
			synctest.Wait()
			done = true
			w.Wake(someKey)
		}()
		looks := 0
		honoured, err := w.Wait(t.Context(), someKey, func(context.Context) (bool, error) {
			looks++
			return done, nil
		})
		if !honoured || err != nil || looks != 2 || time.Since(start) != 0 {
			t.Errorf("honoured %v, %v after %d looks and %v", honoured, err, looks, time.Since(start))
		}
	})
}

// The wake-up comes while the look is on its way: it must not be lost.
func TestWakeUpDuringTheLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w httponce.Waiters
		start, looks := time.Now(), 0
		_, err := w.Wait(t.Context(), someKey, func(context.Context) (bool, error) {
			looks++
			if looks == 1 {
				w.Wake(someKey)
			}
			return looks == 2, nil
		})
		if err != nil || time.Since(start) != 0 {
			t.Errorf("%v: it took %v and %d looks", err, time.Since(start), looks)
		}
	})
}

// Another server finishes the key and wakes nobody here; the looks grow rarer.
func TestWaiterPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w httponce.Waiters
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start, looks := time.Now(), 0
		honoured, err := w.Wait(ctx, someKey, func(context.Context) (bool, error) {
			looks++
			return false, nil
		})
		if !honoured || err != nil || time.Since(start) != 30*time.Second {
			t.Errorf("honoured %v, %v after %v", honoured, err, time.Since(start))
		}
		if looks < 15 || looks > 25 {
			t.Errorf("%d looks in 30 s", looks)
		}
	})
}

func TestWaiterEndsWithItsContext(t *testing.T) {
	var w httponce.Waiters
	ctx, cancel := context.WithCancel(t.Context())
	honoured, err := w.Wait(ctx, someKey, func(ctx context.Context) (bool, error) {
		cancel()
		return false, fmt.Errorf("look: %w", ctx.Err())
	})
	if !honoured || err != nil {
		t.Error(honoured, err)
	}
}

func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httponce.Waiters{Max: 12}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		stay := func(key onlyonce.Key, n int) {
			for range n {
				all.Go(func() {
					if honoured, err := w.Wait(ctx, key, never); !honoured || err != nil {
						t.Error(honoured, err)
					}
				})
			}
			synctest.Wait()
		}
		refused := func(key onlyonce.Key) {
			t.Helper()
			honoured, err := w.Wait(ctx, key, func(context.Context) (bool, error) {
				t.Error("it looked")
				return true, nil
			})
			if honoured || err != nil {
				t.Error(honoured, err)
			}
		}
		other := onlyonce.Key{Account: "A", Name: "other"}
		stay(someKey, 10)
		refused(someKey) // 10 of one key
		stay(other, 2)
		refused(other) // 12 in all
		cancel()
		all.Wait()
		// All room is back.
		ctx, cancel = context.WithCancel(t.Context())
		stay(other, 10)
		cancel()
		all.Wait()
	})
}

func TestCloseEndsEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w httponce.Waiters
		key := onlyonce.Key{Account: "17", Name: "k"}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan bool)
		go func() {
			honoured, err := w.Wait(ctx, key, never)
			ended <- honoured && err == nil
		}()
		synctest.Wait()
		w.Close()
		w.Close()                               // twice is once
		if !<-ended || time.Since(began) != 0 { // by the bubble's clock
			t.Errorf("the wait did not end at once, like the end of its context, but after %v", time.Since(began))
		}
		if honoured, err := w.Wait(ctx, key, never); !honoured || err != nil || time.Since(began) != 0 {
			t.Errorf("a wait after Close: %v, %v", honoured, err)
		}
	})
}
