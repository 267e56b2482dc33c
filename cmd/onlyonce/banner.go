package main

import (
	"fmt"
	"net"
	"strings"
)

// banner is what people see at start: where everything is, and lines to paste.
func (c *serveCmd) banner(address net.Addr, h *house, who *signIns, p paint) string {
	base := baseURL(address)
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n", p.bold(thisBuild().String()))
	line := func(name, value, note string) {
		fmt.Fprintf(&b, "  %s %s%s\n", p.dim(pad(name, 10)), value, p.dim(note))
	}
	line("listening", base, "")
	line("database", c.shown(), "")
	if h.provider.sandbox != nil {
		line("provider", "sandbox, its ledger in "+sandboxPath(c.SandboxDB, c.storeFlags), "  (no real money)")
	} else {
		line("provider", h.provider.Instance(), "")
	}
	key := "$API_KEY"
	if who.wellKnown && who.local {
		key = wellKnownKey
		line("account", wellKnownAccount+", API key "+key, "  (well known: serves this machine alone)")
	}
	fmt.Fprintf(&b, "\nPay, once, however often this is pasted:\n\n%s\n", payLines(base, key))
	b.WriteString("Run it twice: the second answer is the first one again, and there was one charge.")
	switch {
	case h.provider.sandbox == nil || c.OpsListen == "" && !who.local:
		b.WriteString("\n")
	case c.OpsListen != "":
		fmt.Fprintf(&b, "\nThe provider's ledger: curl -s http://%s/sandbox/ledger\n", c.OpsListen)
	default:
		fmt.Fprintf(&b, "\nThe provider's ledger: curl -s %s/sandbox/ledger\n", base)
	}
	if !strings.HasPrefix(key, "$") {
		fmt.Fprintf(&b, "The key's row, before and after: onlyonce keys show %s order-42%s\n", wellKnownAccount, c.dbFlag())
	}
	b.WriteString("\n")
	return b.String()
}

// payLines is a complete request for curl.
func payLines(base, key string) string {
	quote := "'"
	if strings.HasPrefix(key, "$") {
		quote = `"` // so that the shell fills it in
	}
	return fmt.Sprintf(`  curl -i %s/payments \
    -H %sAuthorization: Bearer %s%s -H 'Idempotency-Key: order-42' \
    -H 'Content-Type: application/json' \
    -d '{"orderId":"42","amount":2500,"currency":"USD","paymentMethodToken":"tok_ok"}'
`, base, quote, key, quote)
}

// baseURL is how this machine reaches an address that it listens at.
func baseURL(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return "http://" + address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// shellQuoted is text as one word of a shell command.
func shellQuoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
