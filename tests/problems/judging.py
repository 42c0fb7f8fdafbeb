"""What every problem must show of its own judge."""

from tests.later import Later

values = Later("cutegen_core.judge.reference_process.values")


def assert_judged(reference, workload):
    """Check that the reference's own float32 answer passes; with one element off by a lot it does not."""
    inputs = reference.write_inputs(workload, 5)
    live = values.instantiate_drawn(reference.source(workload), "here", workload.values, 5)
    for spec, path in inputs.items():
        assert path.read_bytes() == values.to_bytes(live.tensors[spec.name]).tobytes(), spec.name
    signature = reference.signature(workload)
    answers = live.call({name: tensor.clone() for name, tensor in live.tensors.items()})
    paths = {spec: reference.scratch / f"{spec.name}.bin" for spec in signature.outputs}
    for spec, answer in zip(signature.outputs, answers, strict=True):
        values.write_raw(answer, paths[spec])
    for comparison in reference.compare(workload, 5, paths):
        assert comparison.wrong == 0, comparison
    broken = answers[0].clone().reshape(-1)
    one_byte = broken.is_floating_point() and broken.element_size() == 1  # none of them holds 1000 more
    broken[-1] = (-broken[-1].float() - 1 if one_byte else broken[-1] + 1000).to(broken.dtype)
    values.write_raw(broken, paths[signature.outputs[0]])
    first = reference.compare(workload, 5, paths)[0]
    assert first.wrong == 1
    assert first.first[0].index == tuple(d - 1 for d in first.shape)
