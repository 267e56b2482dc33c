package integration_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The first five minutes: `onlyonce serve` in an empty folder prints a line to
// paste. Pasted twice it pays once.
func TestFirstLineToPaste(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), freeAddress(t)
	// No flags. The address comes from the environment, because the usual one
	// may be taken on the machine that tests.
	p := start(t, spec{dir: dir, env: []string{"ONLYONCE_LISTEN=" + address}, args: []string{"serve"}})
	base := "http://" + address
	p.answers(base + "/readyz")
	var line string
	eventually(t, patience, "a line to paste", func() bool {
		line = pasteable(p.output(p.stdout))
		return line != ""
	})
	first, second := paste(t, line), paste(t, line)
	for i, out := range []string{first, second} {
		if !strings.Contains(out, " 201") || !strings.Contains(out, `"state":"succeeded"`) {
			t.Errorf("answer %d to the pasted line:\n%s", i+1, out)
		}
	}
	head, _, _ := strings.Cut(second, "\n\n")
	if !strings.Contains(strings.ToLower(head), "idempotent-replayed: true") {
		t.Errorf("the second answer is no replay:\n%s", second)
	}
	_, body1, _ := strings.Cut(first, "\n\n")
	_, body2, _ := strings.Cut(second, "\n\n")
	if body1 != body2 {
		t.Errorf("the bodies differ:\n%s\n%s", body1, body2)
	}
	entries := readLedger(t, base)
	if len(entries) != 1 || entries[0].Type != "charge" || entries[0].Amount != 2500 {
		t.Errorf("the ledger holds %+v, want one charge of 2500", entries)
	}
	for _, file := range []string{"onlyonce.db", "onlyonce.db-sandbox"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("the folder lacks %s: %v", file, err)
		}
	}
	checkHosts(t, address)
}

// pasteable is the command that begins with curl and asks for a payment, with
// the lines that it goes on in; "" while it is not complete.
func pasteable(text string) string {
	at := strings.Index(text, "curl ")
	if at < 0 {
		return ""
	}
	command := text[at:]
	for end := 0; ; {
		n := strings.IndexByte(command[end:], '\n')
		if n < 0 {
			return ""
		}
		end += n + 1
		if !strings.HasSuffix(command[:end], "\\\n") {
			return command[:end]
		}
	}
}

// paste runs the line in a shell, as it is.
func paste(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Fatalf("the pasted line fails: %v\n%s%s", err, line, out)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

// checkHosts checks that a page elsewhere that makes its name point to this
// machine gets nothing, while the well-known key is in use.
func checkHosts(t *testing.T, address string) {
	t.Helper()
	_, port, _ := strings.Cut(address, ":")
	for host, want := range map[string]int{
		"evil.example": http.StatusMisdirectedRequest, "evil.example:" + port: http.StatusMisdirectedRequest,
		"localhost": http.StatusOK, "127.0.0.1:" + port: http.StatusOK, "[::1]:" + port: http.StatusOK,
	} {
		req, err := http.NewRequest(http.MethodGet, "http://"+address+"/payments", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Authorization", "Bearer test_17")
		got, err := roundTrip(req)
		if err != nil || got.status != want {
			t.Errorf("Host %s: status %d, %v, want %d", host, got.status, err, want)
		}
	}
}
