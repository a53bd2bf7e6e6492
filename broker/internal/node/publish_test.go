package node

import (
	"testing"
	"time"
)

func TestParseExpiration(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		"0": 0, "1": time.Millisecond, "00012": 12 * time.Millisecond, "+5": 5 * time.Millisecond, "-0": 0, "315360000000": maxTTL,
		"0000000000000000000000000000001": time.Millisecond,
	} {
		if got, err := ParseExpiration([]byte(raw)); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", raw, got, err, want)
		}
	}
	if got, err := ParseExpiration(nil); err != nil || got >= 0 {
		t.Errorf("none: got %s, %v, want a negative one", got, err)
	}
	for raw, reason := range map[string]string{
		"":                       "no_integer",
		"abc":                    "no_integer",
		" 1":                     "no_integer",
		"-":                      "no_integer",
		"+-5":                    "no_integer",
		"-1":                     "{value_negative,-1}",
		"1.5":                    `{leftover_string,".5"}`,
		"10 ms":                  `{leftover_string," ms"}`,
		"0x10":                   `{leftover_string,"x10"}`,
		"99999999999999999999x":  `{leftover_string,"x"}`,
		"5\"":                    `{leftover_string,"\""}`,
		"315360000001":           "{value_too_large,315360000001}",
		"99999999999999999999":   "{value_too_large,99999999999999999999}",
		"0099999999999999999999": "{value_too_large,99999999999999999999}",
	} {
		_, err := ParseExpiration([]byte(raw))
		if want := "PRECONDITION_FAILED - invalid expiration '" + raw + "': " + reason; replyText(err) != want {
			t.Errorf("%q: got %s, want %s", raw, replyText(err), want)
		}
	}
}

func TestExpirationOfAnySign(t *testing.T) {
	for raw, reason := range map[string]string{
		"-5x":                   `{leftover_string,"x"}`,
		"+5x":                   `{leftover_string,"x"}`,
		"+99999999999999999999": "{value_too_large,99999999999999999999}",
		"+315360000001":         "{value_too_large,315360000001}",
		"-99999999999999999999": "{value_negative,-99999999999999999999}",
		"-007":                  "{value_negative,-7}",
		"5\x01":                 "{leftover_string,[1]}",
	} {
		_, err := ParseExpiration([]byte(raw))
		if want := "PRECONDITION_FAILED - invalid expiration '" + raw + "': " + reason; err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", raw, err, want)
		}
	}
}
