package httponce

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// AppliedHeader says which preferences were honoured.
	AppliedHeader = "Preference-Applied"

	// maxWait caps "Prefer: wait": longer than any proxy's patience is no use.
	maxWait = 30 * time.Second
)

// Wait returns how long a request asks to wait for its outcome with
// "Prefer: wait=N" (RFC 7240), at most 30 s, and whether it asks at all. The
// first wait that is a whole number of seconds counts; other preferences,
// parameters and junk are ignored, and so is wait=0.
func Wait(h http.Header) (time.Duration, bool) {
	for _, line := range h.Values("Prefer") {
		for _, preference := range split(line, ',') {
			name, value, _ := strings.Cut(split(preference, ';')[0], "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			if d, ok := parseSeconds(strings.TrimSpace(value)); ok {
				return d, d > 0
			}
		}
	}
	return 0, false
}

// Applied is the value of Preference-Applied for a wait that was honoured.
func Applied(d time.Duration) string { return "wait=" + strconv.Itoa(int(d/time.Second)) }

// parseSeconds reads delta-seconds, bare or quoted, capped at maxWait.
func parseSeconds(s string) (time.Duration, bool) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil { // digits alone fail only by being too many
		return maxWait, true
	}
	return min(time.Duration(n)*time.Second, maxWait), true
}

// split cuts s at each sep that is not inside a quoted string.
func split(s string, sep byte) []string {
	var parts []string
	quoted, from := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++ // the escaped character
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}
