package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
)

type page struct {
	Data []resource
	Next *string
}

func (w *world) page(path string) page {
	w.t.Helper()
	r := w.send(get(path))
	r.wantStatus(http.StatusOK)
	var v page
	if err := json.Unmarshal(r.body, &v); err != nil {
		w.t.Fatal(err)
	}
	if v.Data == nil {
		w.t.Errorf("%s: data is null", path)
	}
	return v
}

// all follows the cursors to the end and returns the ids.
func (w *world) all(path string, limit int) []string {
	w.t.Helper()
	var ids []string
	at := path
	for range 100 {
		v := w.page(at)
		if len(v.Data) > limit {
			w.t.Errorf("a page of %d has %d", limit, len(v.Data))
		}
		for _, one := range v.Data {
			ids = append(ids, one.ID)
		}
		if v.Next == nil {
			return ids
		}
		at = path + "&cursor=" + url.QueryEscape(*v.Next)
	}
	w.t.Fatal("the list does not end")
	return nil
}

// TestPaymentsList: newest first, page by page, nobody twice and nobody left
// out, whatever was made at the same moment.
func TestPaymentsList(t *testing.T) {
	w := newWorld(t, setup{})
	if v := w.page("/payments"); len(v.Data) != 0 || v.Next != nil {
		t.Errorf("an empty account has %v", v)
	}
	made := map[string]bool{}
	calls := make([]call, 23)
	for i := range calls {
		calls[i] = pay(fmt.Sprint("K", i), bodyWith("tok_ok", fmt.Sprintf(`"orderId":"o%d"`, i)))
	}
	for _, r := range w.together(calls...) {
		made[r.want(http.StatusCreated).ID] = true
	}
	b := pay("B", body1)
	b.APIKey = keyB
	w.send(b).want(http.StatusCreated)
	if v := w.page("/payments"); len(v.Data) != 20 || v.Next == nil {
		t.Errorf("the first page has %d", len(v.Data))
	}
	whole := w.page("/payments?limit=100")
	if !slices.IsSortedFunc(whole.Data, func(a, b resource) int {
		return -1 * compare(a.CreatedAt, b.CreatedAt)
	}) {
		t.Error("the newest is not first")
	}
	for _, limit := range []int{1, 5, 22, 23, 100} {
		ids := w.all(fmt.Sprintf("/payments?limit=%d", limit), limit)
		seen := map[string]bool{}
		for _, id := range ids {
			seen[id] = true
			if !made[id] {
				t.Errorf("%s is not ours", id)
			}
		}
		if len(ids) != 23 || len(seen) != 23 {
			t.Errorf("limit %d: %d payments, %d of them once", limit, len(ids), len(seen))
		}
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestPaymentsFilters(t *testing.T) {
	w := newWorld(t, setup{})
	p1 := w.send(pay(`a"b c`, bodyWith("tok_declined", `"orderId":"42/ü"`))).want(http.StatusPaymentRequired).PaymentID
	p2 := w.send(pay("K2", bodyWith("tok_ok", `"orderId":"42/ü"`))).want(http.StatusCreated).ID
	p3 := w.send(pay("K3", body1)).want(http.StatusCreated).ID
	for query, want := range map[string][]string{
		"?orderId=" + url.QueryEscape("42/ü"):         {p2, p1},
		"?orderId=42":                                 {},
		"?state=failed":                               {p1},
		"?state=succeeded":                            {p3, p2},
		"?state=review":                               {},
		"?idempotencyKey=" + url.QueryEscape(`a"b c`): {p1},
		"?idempotencyKey=k3":                          {}, // byte for byte
		"?state=succeeded&orderId=" + url.QueryEscape("42/ü"):         {p2},
		"?state=failed&idempotencyKey=K3":                             {},
		"?limit=2&state=succeeded&orderId=" + url.QueryEscape("42/ü"): {p2},
	} {
		got := []string{}
		for _, one := range w.page("/payments" + query).Data {
			got = append(got, one.ID)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// TestListQueries: a query that can't mean what it says is 400, because
// ignoring it would show what was not asked for.
func TestListQueries(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("K", body1)).want(http.StatusCreated)
	encoded := func(text string) string { return "cursor=" + base64.RawURLEncoding.EncodeToString([]byte(text)) }
	lists := []string{"/payments", "/payments/" + p.ID + "/refunds", "/payments/" + p.ID + "/events"}
	for _, query := range []string{
		"limit=0", "limit=101", "limit=-1", "limit=x", "limit=", "limit=1.5", "limit=%2B5", "limit=99999999999999999999",
		"limit=5&limit=5", "cursor=", "cursor=!", "cursor=abc", encoded("x"), encoded("1 pay_%"), encoded("-1"),
		encoded("0"), encoded("1 x"), "unknown=1", "order_id=1", "%zz", "a;b",
	} {
		for _, list := range lists {
			w.send(get(list+"?"+query)).want(http.StatusBadRequest, "invalid-request", "fix")
		}
	}
	for _, query := range []string{
		"state=unknown", "state=", "state=Succeeded", "orderId=", "orderId=%00", "orderId=%ff", "idempotencyKey=",
		"idempotencyKey=%20", "idempotencyKey=%c3%bc",
	} {
		w.send(get("/payments?"+query)).want(http.StatusBadRequest, "invalid-request", "fix")
	}
	// A cursor of one kind of list is none of the other.
	w.send(pay("K2", body1)).want(http.StatusCreated)
	row, version := w.page("/payments?limit=1").Next, w.page("/payments/"+p.ID+"/events?limit=1").Next
	w.send(get("/payments/"+p.ID+"/events?cursor="+*row)).want(http.StatusBadRequest, "invalid-request", "fix")
	w.send(get("/payments?cursor="+*version)).want(http.StatusBadRequest, "invalid-request", "fix")
	w.send(get("/payments/" + p.ID + "?any=thing")).want(http.StatusOK) // one payment is not narrowed by anything
}

func TestRefundsList(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("P", body1)).want(http.StatusCreated)
	other := w.send(pay("P2", body1)).want(http.StatusCreated)
	w.send(refund(other.ID, "other", `{}`)).want(http.StatusCreated)
	made := map[string]bool{}
	for i := range 7 {
		made[w.send(refund(p.ID, fmt.Sprint("R", i), `{"amount":1}`)).want(http.StatusCreated).ID] = true
	}
	for _, limit := range []int{1, 3, 7} {
		ids := w.all(fmt.Sprintf("/payments/%s/refunds?limit=%d", p.ID, limit), limit)
		if len(ids) != 7 {
			t.Errorf("limit %d: %d refunds", limit, len(ids))
		}
		for _, id := range ids {
			if !made[id] {
				t.Errorf("%s is not the payment's", id)
			}
		}
	}
	w.send(get("/payments/pay_x/refunds")).want(http.StatusNotFound, "not-found", "fix")
}

// TestTimelinePages gives every event once, in order.
func TestTimelinePages(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("P", body1)).want(http.StatusCreated)
	for i := range 5 {
		w.send(refund(p.ID, fmt.Sprint("R", i), `{"amount":1}`)).want(http.StatusCreated)
	}
	whole := w.timeline(p.ID)
	if len(whole.Data) < 14 || whole.Next != nil {
		t.Fatalf("%d events", len(whole.Data))
	}
	var paged timeline
	at := "/payments/" + p.ID + "/events?limit=3"
	for range 10 {
		var v timeline
		if err := json.Unmarshal(w.send(get(at)).body, &v); err != nil {
			t.Fatal(err)
		}
		paged.Data = append(paged.Data, v.Data...)
		if v.Next == nil {
			break
		}
		at = "/payments/" + p.ID + "/events?limit=3&cursor=" + *v.Next
	}
	if !slices.Equal(paged.Data, whole.Data) {
		t.Errorf("page by page %v, at once %v", paged.Data, whole.Data)
	}
}
