#!/usr/bin/env python3
"""clattn on a CPU beside PyTorch, in one process, on the same inputs.

For each case three contenders run in turn, several rounds: clattn, PyTorch's
fused attention (where it has the operation) and PyTorch's math path. Medians,
GFLOP/s by the products of the operation, errors against float64, and the rate
of a 2048^3 matrix product of the same dtype as the yardstick.

    pip install torch        tools/cpu_peers.py [--library build/libclattn_peer.so] [options]
"""
import argparse
import ctypes
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time

OPERATIONS = ["forward", "jvp", "vjp", "hvp"]
DTYPES = ["f32", "f16", "bf16"]
PRODUCTS = {"forward": 2, "jvp": 6, "vjp": 5, "hvp": 15}


class Request(ctypes.Structure):
    _fields_ = (
        [("operation", ctypes.c_int), ("dtype", ctypes.c_int)]
        + [(n, ctypes.c_int64) for n in ("batch", "heads", "queries", "keys", "head_dim")]
        + [(n, ctypes.c_int) for n in ("causal", "mask", "bias", "forward_given")]
        + [("engine", ctypes.c_char_p)]
    )


def load(path):
    library = ctypes.CDLL(os.path.abspath(path))
    library.peer_open.restype = ctypes.c_void_p
    library.peer_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(Request)]
    library.peer_message.restype = ctypes.c_char_p
    library.peer_close.argtypes = [ctypes.c_void_p]
    library.peer_run.argtypes = [ctypes.c_void_p]
    library.peer_engine.restype = ctypes.c_char_p
    library.peer_result_bytes.restype = ctypes.c_uint64
    library.peer_result_bytes.argtypes = [ctypes.c_void_p]
    library.peer_engine.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    for call in (library.peer_write, library.peer_read):
        call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    return library


class Clattn:
    """One plan and its buffers; tensors in and out by name."""

    def __init__(self, library, device, request):
        self.library = library
        self.handle = library.peer_open(device, ctypes.byref(request))
        if not self.handle:
            raise RuntimeError(library.peer_message().decode())
        tiles = ctypes.create_string_buffer(96)
        self.engine = library.peer_engine(self.handle, tiles, 96).decode() + " " + tiles.value.decode()

    def write(self, name, tensor):
        if self.library.peer_write(self.handle, name.encode(), tensor.data_ptr(), tensor.nbytes):
            raise RuntimeError("writing " + name)

    def read(self, name, like):
        tensor = like.clone()
        if self.library.peer_read(self.handle, name.encode(), tensor.data_ptr(), tensor.nbytes):
            raise RuntimeError("reading " + name)
        return tensor

    def run(self):
        if self.library.peer_run(self.handle):
            raise RuntimeError(self.library.peer_message().decode())

    def close(self):
        self.library.peer_close(self.handle)


def attention_math(q, k, v, bias):
    s = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    if bias is not None:
        s = s + bias
    return torch.softmax(s, -1) @ v


def jvp(f, primals, tangents):
    """Forward mode by double numbers, PyTorch's own."""
    return torch.func.jvp(f, primals, tangents)


class Case:
    """Inputs of one shape, and what PyTorch makes of them."""

    def __init__(self, o, case_options):
        self.o = o
        torch.manual_seed(1)
        shape = (o.batch, o.heads, o.n, o.d)
        names = ["q", "k", "v", "tq", "tk", "tv", "do", "tdo"]
        self.x = {n: torch.randn(shape).to(o.torch_dtype) for n in names}
        self.causal, self.mask, self.with_bias = (c in case_options for c in ("causal", "mask", "bias"))
        self.bias = self.mask_bytes = None
        if self.mask:
            self.mask_bytes = (torch.rand(o.n, o.n) < 0.9).to(torch.uint8)
            self.mask_bytes.fill_diagonal_(1)
        if self.with_bias:
            self.bias = torch.randn(o.n, o.n).to(o.torch_dtype)

    def math_bias(self, dtype):
        if self.causal:
            return torch.full((self.o.n, self.o.n), -math.inf, dtype=dtype).triu(1)
        if self.mask:
            return torch.zeros(self.o.n, self.o.n, dtype=dtype).masked_fill_(self.mask_bytes == 0, -math.inf)
        return None if self.bias is None else self.bias.to(dtype)

    def math(self, operation, x, bias):
        f = lambda q, k, v: attention_math(q, k, v, bias)
        qkv, tangents = (x["q"], x["k"], x["v"]), (x["tq"], x["tk"], x["tv"])
        if operation == "forward":
            return {"o": f(*qkv)}
        if operation == "jvp":
            o, to = jvp(f, qkv, tangents)
            return {"o": o, "to": to}
        gradient = lambda do, *inputs: torch.func.vjp(f, *inputs)[1](do)
        if operation == "vjp":
            return dict(zip(("dq", "dk", "dv"), gradient(x["do"], *qkv)))
        d, td = jvp(gradient, (x["do"],) + qkv, (x["tdo"],) + tangents)
        return dict(zip(("dq", "dk", "dv", "tdq", "tdk", "tdv"), d + td))

    def fused(self, operation):
        """A callable that does the operation's own work, or None where PyTorch's fused kernel refuses it."""
        x, F = self.x, torch.nn.functional
        options = {"is_causal": self.causal}
        if self.mask:
            options["attn_mask"] = self.mask_bytes.bool()
        if self.with_bias:
            options["attn_mask"] = self.bias
        if operation == "forward":
            return lambda: F.scaled_dot_product_attention(x["q"], x["k"], x["v"], **options)
        if operation == "vjp":
            qkv = [x[n].clone().requires_grad_() for n in ("q", "k", "v")]
            with torch.enable_grad():
                out = F.scaled_dot_product_attention(*qkv, **options)
            return lambda: torch.autograd.grad(out, qkv, x["do"], retain_graph=True)
        return None


def relative(got, wanted):
    got, wanted = got.double(), wanted.double()
    return (torch.linalg.norm(got - wanted) / torch.linalg.norm(wanted)).item()


def seconds(call, clock, calls=1):
    begin = clock()
    for _ in range(calls):
        call()
    return (clock() - begin) / calls


SHORTEST = 0.01  # a sample of short calls holds as many as take this many seconds


def measure(contenders, rounds, clock):
    """Medians; the contenders take turns."""
    times = {name: [] for name in contenders}
    calls = {}
    for name, call in contenders.items():
        call()
        calls[name] = max(1, int(SHORTEST / seconds(call, time.perf_counter)))
    for _ in range(rounds):
        for name, call in contenders.items():
            times[name].append(seconds(call, clock, calls[name]))
    return {name: statistics.median(t) for name, t in times.items()}


def errors(case, operation, plan, o):
    """clattn's and the math path's relative errors against float64, on the first head."""
    head = {n: t[:1, :1].double() for n, t in case.x.items()}
    exact = case.math(operation, head, case.math_bias(torch.float64))
    worst = 0
    for name, wanted in exact.items():
        got = plan.read(name, case.x["q"])[:1, :1]
        worst = max(worst, relative(got, wanted))
    return worst


def plan_of(library, case, operation, o):
    request = Request(
        OPERATIONS.index(operation), DTYPES.index(o.dtype), o.batch, o.heads, o.n, o.n, o.d, case.causal, case.mask,
        case.with_bias, operation == "vjp", o.engine)
    plan = Clattn(library, o.device, request)
    needed = {"forward": "q k v", "jvp": "q k v tq tk tv", "vjp": "q k v do", "hvp": "q k v tq tk tv do tdo"}
    for name in needed[operation].split():
        plan.write(name, case.x[name])
    if case.mask:
        plan.write("mask", case.mask_bytes)
    if case.with_bias:
        plan.write("bias", case.bias)
    if operation == "vjp":
        give_forward(library, case, plan, o)
    return plan


def give_forward(library, case, plan, o):
    """Both sides' backward passes start from a forward pass that is not timed."""
    forward = plan_of(library, case, "forward", o)
    forward.run()
    rows = torch.empty(o.batch, o.heads, o.n)
    plan.write("o", forward.read("o", case.x["q"]))
    plan.write("lse", forward.read("lse", rows))
    plan.write("lse_low", torch.zeros_like(rows))
    forward.close()


def run_case(library, operation, case_options, o):
    case = Case(o, case_options)
    plan = plan_of(library, case, operation, o)
    contenders = {"clattn": plan.run}
    fused = case.fused(operation)
    if fused:
        contenders["fused"] = fused
    if o.math:
        bias = case.math_bias(o.torch_dtype)
        contenders["math"] = lambda: case.math(operation, case.x, bias)
    side = o.gemm_side
    a, b = (torch.randn(side, side).to(o.torch_dtype) for _ in range(2))
    contenders["gemm"] = lambda: torch.mm(a, b)
    clock = time.process_time if o.cpu_time else time.perf_counter
    t = measure(contenders, o.rounds, clock)
    flop = PRODUCTS[operation] * 2 * o.batch * o.heads * o.n * o.n * o.d * (0.5 if case.causal else 1)
    row = {
        "operation": operation, "dtype": o.dtype, "shape": f"B{o.batch} H{o.heads} N{o.n} D{o.d}",
        "options": "+".join(case_options) or "none", "engine": plan.engine,
        "clattn_ms": 1e3 * t["clattn"], "gflops": flop / t["clattn"] / 1e9,
        "gemm_gflops": 2 * side**3 / t["gemm"] / 1e9, "error": errors(case, operation, plan, o),
    }
    row["of_gemm"] = row["gflops"] / row["gemm_gflops"]
    for peer in ("fused", "math"):
        row["x_" + peer] = t[peer] / t["clattn"] if peer in t else None
    plan.close()
    return row


def peak_bytes(who):
    """The largest memory that a process of its own has held which ran one call of clattn, of math, or of neither."""
    child = subprocess.run([sys.executable, "-W", "ignore"] + sys.argv + ["--memory-of", who], capture_output=True,
                           text=True, check=True)
    return int(child.stdout.split()[-1])


def run_once(library, operation, case_options, o):
    """What peak_bytes starts; with "buffers" clattn is only asked what it needs."""
    case = Case(o, case_options)
    if o.memory_of == "buffers":
        plan = plan_of(library, case, operation, o)
        print(library.peer_result_bytes(plan.handle))
        return
    if o.memory_of == "clattn":
        plan_of(library, case, operation, o).run()
    elif o.memory_of == "math":
        case.math(operation, case.x, case.math_bias(o.torch_dtype))
    print(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def show_memory():
    peak = {who: peak_bytes(who) for who in ("buffers", "neither", "clattn", "math")}
    clattn, math_path = (peak[who] - peak["neither"] for who in ("clattn", "math"))
    print(f"beyond inputs, MB: clattn's results and scratch {peak['buffers'] / 1e6:.0f}, its process's peak "
          f"{clattn / 1e6:.0f} (the driver's compiler with it), math's {math_path / 1e6:.0f}; "
          f"ratio 1/{math_path / peak['buffers']:.0f}, 1/{math_path / clattn:.1f}")


def show(row):
    ratio = lambda name: f"{row[name]:6.2f}" if row[name] else "     -"
    print(f"{row['operation']:8}{row['dtype']:5}{row['shape']:20}{row['options']:8}{row['clattn_ms']:9.2f}"
          f"{row['gflops']:9.1f}{row['gemm_gflops']:9.1f}{row['of_gemm']:8.2f}  {ratio('x_fused')}  {ratio('x_math')}"
          f"   {row['error']:.1e}  {row['engine']}", flush=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", default="build/libclattn_peer.so")
    p.add_argument("--device", default=None, help="as for clattn run")
    p.add_argument("--engine", default=None)
    p.add_argument("--ops", default="forward,jvp,vjp,hvp")
    p.add_argument("--shapes", default="1x12x2048x64,1x8x2048x128", help="BxHxNxD,...")
    p.add_argument("--options", default="none", help="comma-separated from none, causal, mask, bias")
    p.add_argument("--dtype", default="f32", choices=DTYPES)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--cpu-time", action="store_true", help="time of the process instead of the wall's")
    p.add_argument("--no-math", dest="math", action="store_false")
    p.add_argument("--gemm-side", type=int, default=2048)
    p.add_argument("--json", action="store_true")
    p.add_argument("--memory", action="store_true", help="peak memory of the first case, instead of times")
    p.add_argument("--memory-of", default=None, help=argparse.SUPPRESS)
    o = p.parse_args()
    o.device = o.device.encode() if o.device else None
    o.engine = o.engine.encode() if o.engine else None
    return o


def main():
    o = arguments()
    o.torch_dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[o.dtype]
    torch.set_num_threads(o.threads)
    torch.set_grad_enabled(False)
    if o.memory and not o.memory_of:
        show_memory()
        return
    library = load(o.library)
    rows = []
    if not o.json and not o.memory_of:
        print(f"PyTorch {torch.__version__}, {o.threads} threads; x = how many times clattn's speed\n"
              "op      type shape               options clattn ms  GFLOP/s    GEMM   / GEMM  x fused  x math   error  engine")
    for shape in o.shapes.split(","):
        o.batch, o.heads, o.n, o.d = map(int, shape.split("x"))
        for operation in o.ops.split(","):
            for options in o.options.split(","):
                if o.memory_of:
                    run_once(library, operation, [] if options == "none" else [options], o)
                    return
                rows.append(run_case(library, operation, [] if options == "none" else [options], o))
                if not o.json:
                    show(rows[-1])
    if o.json:
        json.dump({"torch": torch.__version__, "threads": o.threads, "rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    try:
        import torch
    except ImportError:
        print("cpu_peers: PyTorch is not here (pip install torch); nothing to compare with: skipped")
        sys.exit(0)
    main()
