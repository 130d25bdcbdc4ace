package tickwheel_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
)

func TestEveryOperationHasAMethod(t *testing.T) {
	data, err := os.ReadFile("../operations.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Operations map[string]struct{ Go string }
	}
	if err := json.Unmarshal(data, &list); err != nil || len(list.Operations) < 50 {
		t.Fatalf("%d operations, %v", len(list.Operations), err)
	}
	client := reflect.TypeFor[*tickwheel.Client]()
	for operation, method := range list.Operations {
		if _, found := client.MethodByName(method.Go); !found {
			t.Errorf("%s: the client has no method %q", operation, method.Go)
		}
	}
}
