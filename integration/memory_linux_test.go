package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// roomToGrow is what a process may need beyond what it had, in KiB. It is less
// than the smallest thing that these tests could make it keep.
const roomToGrow = slowness * 32 << 10

// peak is the most memory that the process has had so far, in KiB.
func (p *process) peak() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				p.t.Fatal(err)
			}
			return kib
		}
	}
	p.t.Fatal("the system does not tell the peak of a process's memory")
	return 0
}

func (p *process) checkGrowth(before int) {
	p.t.Helper()
	grown := p.peak() - before
	p.t.Logf("%s has grown by %d KiB over %d KiB", p.name, grown, before)
	if grown > roomToGrow {
		p.t.Errorf("%s has grown by %d KiB, want at most %d", p.name, grown, roomToGrow)
	}
}

const gib = 1 << 30

// Case 78: a body of 1 GiB, chunked or announced, is refused after a little of
// it was read; no key is claimed and no memory taken.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve()
	s.final(payment("k-warm", "", "tok_ok"), patience)
	before := s.peak()
	for key, header := range map[string]string{
		"k-chunked":   "Transfer-Encoding: chunked\r\n",
		"k-announced": fmt.Sprintf("Content-Length: %d\r\n", gib),
	} {
		sent, got := s.pour(key, header)
		got.is(t, http.StatusRequestEntityTooLarge, "too-large")
		t.Logf("%s: %d bytes went out before the answer", key, sent)
		if at := h.db.key(key); at != absent {
			t.Errorf("%s was claimed: %q", key, at)
		}
	}
	s.checkGrowth(before)
	h.moved("charge 2500")
}

// pour sends up to 1 GiB of JSON and reads the answer as soon as there is one.
func (c client) pour(key, header string) (sent int, got reply) {
	c.t.Helper()
	address := strings.TrimPrefix(c.base, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callTimeout))
	fmt.Fprintf(conn, "POST /payments HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
		"Content-Type: application/json\r\n%s\r\n", address, c.key, key, header)
	done := make(chan int, 1)
	go func() {
		const piece = 32 << 10
		text := strings.Repeat(" ", piece)
		if strings.Contains(header, "chunked") {
			text = fmt.Sprintf("%x\r\n%s\r\n", piece, text)
		}
		n := 0
		for n < gib {
			wrote, err := io.WriteString(conn, text)
			n += wrote
			if err != nil {
				break // the server has had enough
			}
		}
		done <- n
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.t.Fatalf("%s: no answer: %v", key, err)
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply)) // the answer is judged by its text
	conn.Close()
	return <-done, reply{resp.StatusCode, resp.Header, body}
}

// 100,000 kept keys (see keptKeys) lie in the file and not in the process: whether they are
// listed, swept, replayed or refused, a server and the commands stay small.
func TestManyKeptKeys(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve()
	r := payment("k-template", "", "tok_ok")
	first := s.final(r, patience)
	before := s.peak()
	h.keep(r.key, keptKeys)
	for i := range 200 {
		kept := r
		kept.key = fmt.Sprintf("k-kept-%d", 1+i*(keptKeys/200))
		s.must(kept).checkReplay(t, first)
		kept.body = strings.Replace(kept.body, "2500", "2501", 1)
		s.must(kept).is(t, http.StatusUnprocessableEntity, "key-reuse")
	}
	s.checkGrowth(before)
	for _, c := range []struct {
		args  []string
		lines int // that it writes
	}{
		{[]string{"keys", "list", "--limit", "1000", "--json"}, 1000},
		{[]string{"keys", "list", "--status", "tombstone"}, 1}, // looks at all of them, and says that there is none
		{append([]string{"sweep"}, h.provider...), 1},
	} {
		h.checkSmall(c.args, c.lines, before)
	}
	h.db.write(`UPDATE idempotency_keys SET expires_at = created_at
		WHERE idempotency_key LIKE 'k-kept-%' AND rowid % 50 = 0`)
	eventually(t, patience, "some keys to become tombstones", func() bool {
		return h.db.one(`SELECT count(*) FROM idempotency_keys WHERE status = 'tombstone'`) == strconv.Itoa(keptKeys/50)
	})
	s.checkGrowth(before)
	h.moved("charge 2500")
}

// checkSmall runs a command and checks that it stays small.
func (h *house) checkSmall(args []string, lines, before int) {
	h.t.Helper()
	p := start(h.t, spec{dir: h.dir, args: args})
	largest := 0
	for p.running() {
		largest = max(largest, p.peakUntilItEnds())
	}
	if status := p.end(patience); status != 0 {
		h.t.Errorf("%v exits %d: %s", args, status, p.output(p.log))
	}
	if got := strings.Count(p.output(p.stdout), "\n"); got != lines {
		h.t.Errorf("%v wrote %d lines, want %d", args, got, lines)
	}
	h.t.Logf("%v took at most %d KiB", args, largest)
	if largest > before+roomToGrow {
		h.t.Errorf("%v took %d KiB", args, largest)
	}
}

// peakUntilItEnds is peak for a process that may end at any moment.
func (p *process) peakUntilItEnds() int {
	select {
	case <-p.exited:
		return 0
	case <-time.After(look):
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)) // gone: it has ended
	_, after, found := strings.Cut(string(status), "VmHWM:")
	if !found {
		return 0
	}
	kib, _ := strconv.Atoi(strings.Fields(after)[0])
	return kib
}

// keep copies a finished key n times, each with its response.
func (h *house) keep(template string, n int) {
	h.t.Helper()
	h.db.write(`WITH RECURSIVE seq (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM seq WHERE i < ?)
		INSERT INTO idempotency_keys
		SELECT account_id, 'k-kept-' || i, status, body_hash, operation, owner, attempt, lease_until, recovery_point,
			resource, created_at + i, completed_at, expires_at, version, response_status, response_headers, response_body
		FROM seq JOIN idempotency_keys ON account_id = ? AND idempotency_key = ?`, n, account, template)
}
