package rehopotel_test

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// attributeEncoder writes attributes as a=b, sorted, without messaging.system, which all have.
type attributeEncoder struct{}

func (attributeEncoder) ID() attribute.EncoderID { return attribute.EncoderID{} }

func (attributeEncoder) Encode(all attribute.Iterator) string {
	var list []string
	for all.Next() {
		if a := all.Attribute(); a.Key != "messaging.system" {
			list = append(list, string(a.Key)+"="+a.Value.String())
		}
	}
	return strings.Join(list, ",")
}
