// Command upstream says what Kubernetes' own code makes of a quantity or a Pod,
// so that tests can hold ours against it.
//
// It reads one JSON object a line on stdin and answers each with one JSON
// object a line on stdout, in order. Fields it doesn't know are an error, so
// that a misspelt one in a test is not passed over. It ends at end of input.
//
//	{"quantity": "2.5Gi"}
//	→ {"canonical": "2560Mi", "value": 2684354560, "milli": 2684354560000}
//
// value is Quantity.Value(), milli is Quantity.MilliValue(), both rounded away
// from zero; either is null where the result does not fit in 64 bits
// (apimachinery wraps around or saturates there).
//
//	{"pod": {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1.5"}}}]}}}
//	→ {"requests": {"cpu": "1500m"}, "units": {"cpu": 1500}}
//
// requests is PodRequests of k8s.io/component-helpers/resource for a Pod that
// is on a node; units is what the scheduler adds up: milli for cpu, whole
// units for everything else, rounded up.
//
//	anything that upstream refuses
//	→ {"error": "…"}
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
)

// longestLine bounds one line: a Pod is at most the 1.5 MiB that etcd takes.
const longestLine = 4 << 20

// onNode is what PodInfo.CalculateResource passes for each Pod of a node
// (k8s.io/kubernetes v1.36.3, pkg/scheduler/framework/types.go), with the gates
// as they are by default in 1.36: InPlacePodVerticalScaling is GA and locked
// on; PodLevelResources and InPlacePodLevelResourcesVerticalScaling are beta
// and on; DRANodeAllocatableResources is alpha and off. For a Pod that is yet
// to be scheduled the fit plugin leaves UseStatusResources off, which is the
// same where the status reports no resources.
var onNode = helpers.PodResourcesOptions{
	UseStatusResources: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
	SkipPodLevelResources:                          false,
	UseDRANodeAllocatableResourceClaimStatus:       false,
}

type question struct {
	Quantity *string     `json:"quantity"`
	Pod      *corev1.Pod `json:"pod"`
}

type quantityAnswer struct {
	Canonical string `json:"canonical"`
	Value     *int64 `json:"value"`
	Milli     *int64 `json:"milli"`
}

type podAnswer struct {
	Requests map[corev1.ResourceName]string `json:"requests"`
	Units    map[corev1.ResourceName]int64  `json:"units"`
}

type errorAnswer struct {
	Error string `json:"error"`
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func serve() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		reply, err := answer(lines.Bytes())
		if err != nil {
			reply = errorAnswer{err.Error()}
		}
		if err := out.Encode(reply); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answer(line []byte) (any, error) {
	var asked question
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return nil, err
	}
	switch {
	case asked.Quantity != nil && asked.Pod == nil:
		return quantity(*asked.Quantity)
	case asked.Pod != nil && asked.Quantity == nil:
		return pod(asked.Pod), nil
	default:
		return nil, errors.New("ask for exactly one of quantity and pod")
	}
}

func quantity(text string) (any, error) {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, err
	}
	// String() would give back some texts as they came ("+5", "1E3").
	number, suffix := parsed.CanonicalizeBytes(nil)
	return quantityAnswer{
		Canonical: string(number) + string(suffix),
		Value:     unlessOverflow(parsed, 0, parsed.Value()),
		Milli:     unlessOverflow(parsed, 3, parsed.MilliValue()),
	}, nil
}

// unlessOverflow is result, unless the quantity times 10^digits is too big for
// 64 bits, which ScaledValue does not tell.
func unlessOverflow(q resource.Quantity, digits inf.Scale, result int64) *int64 {
	exact := q.DeepCopy()
	dec := exact.AsDec()
	scaled := new(inf.Dec).Mul(dec, inf.NewDec(1, -digits))
	whole := new(inf.Dec).Round(scaled, 0, inf.RoundUp).UnscaledBig()
	if !whole.IsInt64() {
		return nil
	}
	return &result
}

func pod(p *corev1.Pod) podAnswer {
	reply := podAnswer{map[corev1.ResourceName]string{}, map[corev1.ResourceName]int64{}}
	for name, q := range helpers.PodRequests(p, onNode) {
		reply.Requests[name] = q.String()
		if name == corev1.ResourceCPU {
			reply.Units[name] = q.MilliValue()
		} else {
			reply.Units[name] = q.Value()
		}
	}
	return reply
}
