package memo

import (
	"errors"
	"testing"
)

func TestCacheBuildsKeysIndependently(t *testing.T) {
	t.Parallel()
	var c Cache[string, int]
	began, finish, slow := make(chan struct{}), make(chan struct{}), make(chan int)
	go func() {
		v, _ := c.Get("slow", func() (int, error) {
			close(began)
			<-finish
			return 1, nil
		})
		slow <- v
	}()
	<-began
	if v, err := c.Get("fast", func() (int, error) { return 2, nil }); v != 2 || err != nil {
		t.Errorf("get = %d, %v while another key is built", v, err)
	}
	close(finish)
	if v := <-slow; v != 1 {
		t.Errorf("the slow value is %d", v)
	}
	for _, key := range []string{"slow", "fast"} {
		if _, err := c.Get(key, func() (int, error) { return 0, errors.New("built twice") }); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestCacheKeepsNoFailure(t *testing.T) {
	t.Parallel()
	var c Cache[string, int]
	if _, err := c.Get("a", func() (int, error) { return 0, errors.New("no") }); err == nil {
		t.Error("the error is lost")
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Get("a", func() (int, error) { panic("no") })
	}()
	if v, err := c.Get("a", func() (int, error) { return 3, nil }); v != 3 || err != nil {
		t.Errorf("get = %d, %v after failures", v, err)
	}
}

func TestFullCacheStartsOver(t *testing.T) {
	t.Parallel()
	var c Cache[int, int]
	builds := 0
	for range 2 {
		for key := range Max + 1 {
			if v, err := c.Get(key, func() (int, error) { builds++; return key, nil }); v != key || err != nil {
				t.Fatalf("get(%d) = %d, %v", key, v, err)
			}
		}
	}
	if len(c.values) > Max || builds < Max+1 {
		t.Errorf("%d values are kept, %d were built", len(c.values), builds)
	}
}
