package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/server"
)

// description loads openapi.yaml once for all tests.
var description = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(server.OpenAPI())
})

// operationOf finds the path and operation that a request is for; nil if the
// description has none.
func operationOf(spec *openapi3.T, r *http.Request) *routers.Route {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	at := strings.Split(r.URL.EscapedPath(), "/")
	for template, item := range spec.Paths.Map() {
		parts := strings.Split(template, "/")
		matches := len(parts) == len(at)
		for i := range parts {
			matches = matches && (parts[i] == at[i] || strings.HasPrefix(parts[i], "{") && at[i] != "")
		}
		if operation := item.GetOperation(method); matches && operation != nil {
			return &routers.Route{Spec: spec, Path: template, PathItem: item, Method: method, Operation: operation}
		}
	}
	return nil
}

// obeys fails the test if the answer is not what openapi.yaml says of it.
func (r reply) obeys(request *http.Request) {
	r.t.Helper()
	spec, err := description()
	if err != nil {
		r.t.Error(err)
		return
	}
	route := operationOf(spec, request)
	if route == nil {
		r.isProblem(spec)
		return
	}
	err = openapi3filter.ValidateResponse(request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, Route: route},
		Status:                 r.status, Header: r.header, Body: io.NopCloser(bytes.NewReader(r.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		r.t.Errorf("%s %s: the answer is not what openapi.yaml says: %v", request.Method, request.URL.Path, err)
	}
	if strings.Contains(string(r.body), `:null`) && !strings.HasSuffix(string(r.body), `"next":null}`) &&
		!strings.Contains(string(r.body), `"next":null,"replays"`) {
		r.t.Errorf("%s %s: the answer has a null member: %s", request.Method, request.URL.Path, r.body)
	}
}

// isProblem is for answers to what no operation is for.
func (r reply) isProblem(spec *openapi3.T) {
	r.t.Helper()
	if r.status != http.StatusNotFound && r.status != http.StatusMethodNotAllowed &&
		r.status != http.StatusMisdirectedRequest || len(r.body) == 0 {
		return
	}
	var v any
	if err := json.Unmarshal(r.body, &v); err != nil {
		r.t.Errorf("not a problem: %v: %q", err, r.body)
		return
	}
	if err := spec.Components.Schemas["Problem"].Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		r.t.Error(err)
	}
}

func TestDescriptionIsValid(t *testing.T) {
	spec := must(description())(t)
	if err := spec.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !spec.IsOpenAPI31OrLater() {
		t.Errorf("it is OpenAPI %s", spec.OpenAPI)
	}
}

// TestRequestsMatchTheDescription holds the examples of openapi.yaml to it.
func TestRequestsMatchTheDescription(t *testing.T) {
	spec := must(description())(t)
	for template, item := range spec.Paths.Map() {
		if item.Post == nil {
			continue
		}
		media := item.Post.RequestBody.Value.Content["application/json"]
		for name, example := range media.Examples {
			value := example.Value.Value
			if err := media.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
				t.Errorf("%s, example %s: %v", template, name, err)
			}
		}
	}
}

func TestEveryRouteIsDescribed(t *testing.T) {
	w := newWorld(t, setup{server: server.Options{Ledger: http.NotFoundHandler()}})
	spec := must(description())(t)
	var described []string
	for template, item := range spec.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+template)
		}
	}
	served := w.server.Routes()
	slices.Sort(served)
	slices.Sort(described)
	if !slices.Equal(served, described) {
		t.Errorf("served:    %v\ndescribed: %v", served, described)
	}
}

func TestDescriptionIsServed(t *testing.T) {
	w := newWorld(t, setup{})
	r := w.send(call{Method: "GET", Path: "/openapi.yaml", Header: http.Header{"Authorization": nil}})
	if r.status != http.StatusOK || !bytes.Equal(r.body, server.OpenAPI()) {
		t.Errorf("status %d, %d bytes", r.status, len(r.body))
	}
}

// TestDescriptionSaysOneKeyPerIntent keeps the words that users act on (case 84).
func TestDescriptionSaysOneKeyPerIntent(t *testing.T) {
	text := strings.ToLower(strings.Join(strings.Fields(string(server.OpenAPI())), " "))
	for _, words := range []string{
		"one key per intent", "the same key with the very same request on every retry", "a new key is a new intent",
	} {
		if !strings.Contains(text, words) {
			t.Errorf("openapi.yaml does not say %q", words)
		}
	}
	for _, words := range []string{"unique for every request", "unique for each request", "new key for each request"} {
		if strings.Contains(text, words) {
			t.Errorf("openapi.yaml says %q", words)
		}
	}
}

// TestDescriptionKnowsAllWords compares the lists of words with the code's.
func TestDescriptionKnowsAllWords(t *testing.T) {
	spec := must(description())(t)
	states := spec.Components.Schemas["State"].Value.Extensions["x-extensible-enum"].([]any)
	filter := spec.Paths.Value("/payments").Get.Parameters.GetByInAndName("query", "state").Schema.Value.Enum
	for _, state := range payments.States() {
		if !slices.Contains(states, any(string(state))) || !slices.Contains(filter, any(string(state))) {
			t.Errorf("the state %s is missing", state)
		}
	}
	events := spec.Components.Schemas["Event"].Value.Properties["type"].Value.Extensions["x-extensible-enum"].([]any)
	for _, event := range []payments.EventType{
		payments.EventClaimed, payments.EventSent, payments.EventNotSent, payments.EventAnswered,
		payments.EventTimedOut, payments.EventTakenOver, payments.EventChecked, payments.EventResolved,
		payments.EventCompleted, payments.EventReserved, payments.EventRoomFreed, payments.EventRefunded,
		payments.EventReview, payments.EventNewsIgnored,
	} {
		if !slices.Contains(events, any(string(event))) {
			t.Errorf("the event %s is missing", event)
		}
	}
	for header := range strings.SplitSeq(httponce.ExposedHeaders, ", ") {
		if !strings.Contains(string(server.OpenAPI()), "\n            "+header+":") {
			t.Errorf("the exposed header %s is missing", header)
		}
	}
}
