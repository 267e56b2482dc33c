// Package wire puts a TCP proxy in front of a database server that loses what
// a network loses: the answer to COMMIT, or the COMMIT itself. It understands
// just enough of what PostgreSQL and MySQL speak to see a COMMIT go by, as a
// plain query and, on PostgreSQL, as a prepared one.
package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Act is what happens to a COMMIT, or to what Proxy.Watch names.
type Act int

const (
	// Pass lets it through.
	Pass Act = iota
	// LoseAnswer lets it through, and cuts the connection when it is answered.
	LoseAnswer
	// LoseRequest cuts the connection instead of letting it through.
	LoseRequest
	// Hold keeps it back until the next call of Proxy.Commits.
	Hold
)

// maxMessage bounds what one message may be: more than an outcome's 1 MiB
// written as text.
const maxMessage = 16 << 20

// Proxy stands in front of a server.
type Proxy struct {
	// URL leads to the server through the proxy.
	URL string

	read   func(io.Reader, *state) ([]byte, error)
	server string

	mu      sync.Mutex
	word    string // how the statements begin that are acted on
	act     Act
	changed chan struct{} // closed when act changes
	seen    int
	conns   []net.Conn
}

// state is where one client's conversation stands.
type state struct {
	started  bool // the login is behind us
	prepared bool // PostgreSQL: a COMMIT was parsed and waits for its Sync
	commit   bool // the message that was just read makes the server commit
	watched  func(text []byte) bool
}

// Listen puts a proxy in front of the server that link leads to. It ends with
// the test.
func Listen(t testing.TB, link string) *Proxy {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: u.Host, word: "COMMIT", read: readPostgres, changed: make(chan struct{})}
	if u.Scheme == "mysql" {
		p.read = readMySQL
	}
	u.Host = listener.Addr().String()
	p.URL = u.String()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed below
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		p.Commits(Pass)
		_ = listener.Close()
		p.mu.Lock()
		for _, conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		serving.Wait()
	})
	return p
}

// Commits says what happens to every COMMIT from now on, also to those that
// are held.
func (p *Proxy) Commits(act Act) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.act = act
	close(p.changed)
	p.changed = make(chan struct{})
}

// Watch acts on the statements that begin with word, and no more on COMMIT.
func (p *Proxy) Watch(word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.word = word
}

// Seen returns how many COMMITs have come by.
func (p *Proxy) Seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// verdict waits while COMMITs are held, and says what becomes of this one.
func (p *Proxy) verdict() Act {
	p.mu.Lock()
	p.seen++
	p.mu.Unlock()
	for {
		p.mu.Lock()
		act, changed := p.act, p.changed
		p.mu.Unlock()
		if act != Hold {
			return act
		}
		<-changed
	}
}

// serve carries one client's conversation.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var lost atomic.Bool // what the server says from now on
	var answered sync.WaitGroup
	answered.Go(func() {
		defer client.Close()
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			if n > 0 && !lost.Load() {
				_, werr := client.Write(buffer[:n])
				err = errors.Join(err, werr)
			}
			if err != nil || lost.Load() {
				return
			}
		}
	})
	defer answered.Wait()
	defer server.Close()
	s := state{watched: p.watched}
	for {
		message, err := p.read(client, &s)
		if err != nil {
			return
		}
		act := Pass
		if s.commit {
			act = p.verdict()
		}
		if act == LoseRequest {
			return
		}
		lost.Store(act == LoseAnswer) // the client says nothing more before it is answered, so nothing else is lost
		if _, err := server.Write(message); err != nil {
			return
		}
		if act == LoseAnswer {
			answered.Wait()
			return
		}
	}
}

// readPostgres reads one message: a type and a length that counts itself; the
// first ones of a conversation have no type.
func readPostgres(r io.Reader, s *state) ([]byte, error) {
	const (
		askTLS    = 80877103 // answered with a letter; then the conversation begins
		askGSSAPI = 80877104
	)
	head := make([]byte, 5)
	if !s.started {
		head = head[:4]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	message, err := rest(r, head, int(binary.BigEndian.Uint32(head[len(head)-4:]))-4)
	if err != nil {
		return nil, err
	}
	if !s.started {
		code := binary.BigEndian.Uint32(message[4:])
		s.started = code != askTLS && code != askGSSAPI
		return message, nil
	}
	body := message[5:]
	switch message[0] {
	case 'Q':
		s.commit = s.watched(body)
	case 'P': // name, text
		_, text, _ := strings.Cut(string(body), "\x00")
		s.prepared = s.prepared || s.watched([]byte(text))
		s.commit = false
	case 'S':
		s.commit, s.prepared = s.prepared, false
	default:
		s.commit = false
	}
	return message, nil
}

// readMySQL reads one packet: a length of three bytes and a number, which is 0
// for each command.
func readMySQL(r io.Reader, s *state) ([]byte, error) {
	const query = 3
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	packet, err := rest(r, head, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	if err != nil {
		return nil, err
	}
	s.commit = head[3] == 0 && len(packet) > 5 && packet[4] == query && s.watched(packet[5:])
	return packet, nil
}

func rest(r io.Reader, head []byte, n int) ([]byte, error) {
	if n < 0 || n > maxMessage {
		return nil, errors.New("this is not what the server speaks")
	}
	message := append(head, make([]byte, n)...)
	_, err := io.ReadFull(r, message[len(head):])
	return message, err
}

func (p *Proxy) watched(text []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	statement, _, _ := strings.Cut(string(text), "\x00")
	statement = strings.TrimSpace(statement)
	return len(statement) >= len(p.word) && strings.EqualFold(statement[:len(p.word)], p.word)
}
