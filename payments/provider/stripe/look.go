package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
)

const (
	pageSize = 100 // the provider's largest
	// maxPages bounds one look. A list that is longer was not seen whole and
	// proves nothing.
	maxPages = 100
	// clockSlack is by how much the provider's clock may differ from ours at
	// least; the grace in which an object may still turn up adds to it.
	clockSlack = 5 * time.Minute
)

// Read asks for the object by d.ProviderID. See provider.Provider.
func (c *Client) Read(ctx context.Context, d payments.Dispatch) payments.Answer {
	a := c.read(ctx, d)
	c.log(ctx, "provider read", d, a)
	return a
}

func (c *Client) read(ctx context.Context, d payments.Dispatch) payments.Answer {
	path, ok := paths[d.Kind]
	if !ok || word(d.ProviderID) == "" {
		return payments.Answer{Kind: payments.AnswerUnread, Detail: "the dispatch lacks the provider's id"}
	}
	r, err := c.get(ctx, d, path+"/"+url.PathEscape(d.ProviderID))
	if err != nil {
		return payments.Answer{Kind: payments.AnswerUnread, Detail: reason(err)}
	}
	if r.status != http.StatusOK {
		p, ok := r.problem()
		if ok && r.status == http.StatusNotFound && p.Code == codeMissing {
			return r.answer(payments.AnswerNotFound, p.name())
		}
		return r.answer(payments.AnswerUnread, p.name())
	}
	o, ok := r.object()
	if !ok {
		return r.answer(payments.AnswerUnread, "the answer can't be read")
	}
	return judge(d, o, r)
}

// Find lists every object that the request may have made and matches our
// reference. See provider.Provider. The window begins well before the first
// send and has no end, because any send may be the one that acted, by clocks
// that may differ.
func (c *Client) Find(ctx context.Context, d payments.Dispatch) payments.Answer {
	a := c.find(ctx, d)
	c.log(ctx, "provider list", d, a)
	return a
}

func (c *Client) find(ctx context.Context, d payments.Dispatch) payments.Answer {
	query, missing := c.listQuery(d)
	if missing != "" {
		return payments.Answer{Kind: payments.AnswerUnread, Detail: missing}
	}
	var found []object
	for range maxPages {
		r, err := c.get(ctx, d, paths[d.Kind]+"?"+query.Encode())
		if err != nil {
			return payments.Answer{Kind: payments.AnswerUnread, Detail: reason(err)}
		}
		list, ok := r.page()
		if !ok {
			return r.answer(payments.AnswerUnread, "the list can't be read")
		}
		for _, o := range list.Data {
			if isOurs(d, o) {
				found = append(found, o)
			}
		}
		switch {
		case *list.HasMore && len(list.Data) > 0:
			query.Set("starting_after", list.Data[len(list.Data)-1].ID)
		case *list.HasMore:
			return r.answer(payments.AnswerUnread, "the list says that there is more and shows none")
		case len(found) == 0:
			return r.answer(payments.AnswerNotFound, "not in the list")
		case len(found) > 1:
			return r.answer(payments.AnswerConflict, strconv.Itoa(len(found))+" objects carry our reference")
		default:
			return judge(d, found[0], r)
		}
	}
	detail := "the list is longer than " + strconv.Itoa(maxPages) + " pages"
	return payments.Answer{Kind: payments.AnswerUnread, Detail: detail}
}

// listQuery is the narrowest list that must show the object, or says what is
// missing to ask for it.
func (c *Client) listQuery(d payments.Dispatch) (query url.Values, missing string) {
	query = url.Values{"limit": {strconv.Itoa(pageSize)}}
	switch {
	case d.Kind == payments.KindRefund && chargeOf(d) == "":
		return nil, "the request no longer names its payment"
	case d.Kind == payments.KindRefund:
		query.Set("payment_intent", chargeOf(d))
	case d.FirstSentAt.IsZero():
		return nil, "the dispatch lacks the time of its first send"
	case d.Kind == payments.KindPayment:
		// Our clock wrote FirstSentAt and theirs wrote created. An object outside
		// the window would count as absent, so a wrong clock must not push it out:
		// wide costs pages, and too many of them prove nothing. For the same
		// reason there is no upper end.
		from := d.FirstSentAt.Add(-c.o.Facts.AbsenceGrace - clockSlack)
		query.Set("created[gte]", strconv.FormatInt(from.Unix(), 10))
	default:
		return nil, "nothing is known of its kind"
	}
	return query, ""
}

type page struct {
	Object  string   `json:"object"`
	Data    []object `json:"data"`
	HasMore *bool    `json:"has_more"`
}

// page reads a list. One without has_more is not known to be whole.
func (r reply) page() (page, bool) {
	var p page
	if r.status != http.StatusOK || json.Unmarshal(r.body, &p) != nil || p.Object != "list" || p.HasMore == nil {
		return page{}, false
	}
	for _, o := range p.Data {
		if word(o.ID) == "" {
			return page{}, false
		}
	}
	return p, true
}

func (c *Client) get(ctx context.Context, d payments.Dispatch, path string) (reply, error) {
	version := cmp.Or(d.Request.Version, c.o.Version)
	return c.call(ctx, call{method: http.MethodGet, path: path, version: version}, &gate{now: c.o.Now})
}
