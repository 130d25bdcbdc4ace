package tickwheel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrInvalidSignature is returned for a webhook that the server did not sign, or not recently.
var ErrInvalidSignature = errors.New("tickwheel: invalid webhook signature")

// WebhookVerifier checks the signatures of webhooks, by the Standard Webhooks specification.
type WebhookVerifier struct {
	// Tolerance is by how much the time of a webhook may differ from now. Defaults to 5 minutes.
	Tolerance time.Duration
	// Now returns the current time. Defaults to time.Now.
	Now func() time.Time

	secrets [][]byte
}

// NewWebhookVerifier returns a verifier that accepts a signature by any of the secrets, so that a
// secret can be replaced without a gap. A secret is "whsec_" and base 64.
func NewWebhookVerifier(secrets ...string) (*WebhookVerifier, error) {
	v := &WebhookVerifier{Tolerance: 5 * time.Minute, Now: time.Now}
	for _, secret := range secrets {
		encoded, found := strings.CutPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil || len(key) == 0 {
			return nil, errors.New(`tickwheel: a webhook secret must be "whsec_" followed by base 64`)
		}
		v.secrets = append(v.secrets, key)
	}
	if len(v.secrets) == 0 {
		return nil, errors.New("tickwheel: a webhook verifier needs at least one secret")
	}
	return v, nil
}

// Verify checks that the body was signed recently with one of the secrets. The headers are
// webhook-id, webhook-timestamp and webhook-signature. Every error wraps [ErrInvalidSignature].
func (v *WebhookVerifier) Verify(header http.Header, body []byte) error {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil {
		return fmt.Errorf("%w: the headers webhook-id and webhook-timestamp are missing or malformed", ErrInvalidSignature)
	}
	if age := v.Now().Sub(time.Unix(seconds, 0)); age > v.Tolerance || age < -v.Tolerance {
		return fmt.Errorf("%w: the timestamp is %v from now, more than %v", ErrInvalidSignature, age, v.Tolerance)
	}
	for _, signature := range strings.Fields(header.Get("webhook-signature")) {
		encoded, found := strings.CutPrefix(signature, "v1,")
		given, err := base64.StdEncoding.DecodeString(encoded)
		if found && err == nil && v.signedWithAny(id, timestamp, body, given) {
			return nil
		}
	}
	return fmt.Errorf("%w: no signature of version 1 matches", ErrInvalidSignature)
}

func (v *WebhookVerifier) signedWithAny(id, timestamp string, body, given []byte) bool {
	for _, secret := range v.secrets {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.", id, timestamp)
		mac.Write(body)
		if hmac.Equal(mac.Sum(nil), given) {
			return true
		}
	}
	return false
}
