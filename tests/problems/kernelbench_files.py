"""References in KernelBench's shape for the tests: level 1 and level 2 in kind, with sizes as large as its own."""

_HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
"""


def _file(model: str, sizes: str, inputs: str, init: str = "", head: str = "") -> str:
    """Return a whole file; `model` is the body of the class, `inputs` and `init` are what the functions return."""
    body = "\n".join("    " + line if line else "" for line in model.strip("\n").splitlines())
    return (
        f"{_HEAD}{head}\n\nclass Model(nn.Module):\n{body}\n\n\n{sizes}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return [{init}]\n"
    )


ROTARY_COMPLEX = """import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, dim, length):
        super().__init__()
        angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, dim, 2).float() / dim))
        self.freqs_cis = torch.polar(torch.ones_like(angles), angles)
    def forward(self, x, turn):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = torch.view_as_real(pairs * self.freqs_cis[None, :, None] * turn).flatten(3)
        return turned.type_as(x)
batch, length, heads, dim = 4, 2048, 32, 128
def get_inputs():
    return [torch.randn(batch, length, heads, dim), torch.randn(dim // 2, dtype=torch.complex64)]
def get_init_inputs():
    return [dim, length]
"""
GOOD = {
    "rotary_complex": ROTARY_COMPLEX,
    "elementwise": _file(
        "def forward(self, x):\n    return F.hardswish(x) + torch.sin(x)",
        "batch_size = 4096\ndim = 393216",
        "torch.rand(batch_size, dim)",
    ),
    "matmul": _file(
        "def forward(self, A, B):\n    return torch.matmul(A, B)",
        "M = 1024 * 2\nK = 4096 * 2\nN = 2048 * 2",
        "torch.rand(M, K), torch.rand(K, N)",
    ),
    "matmul_4d": _file(
        "def forward(self, A, B):\n    return torch.einsum('bijl,lk->bijk', A, B)",
        "b, i, j, l = 8, 256, 512, 256\nk = 768",
        "torch.rand(b, i, j, l), torch.rand(l, k)",
    ),
    "diagonal": _file(
        "def forward(self, a, b):\n    return torch.diag(a) @ b",
        "M = 4096\nN = 4096",
        "torch.rand(N), torch.rand(N, M)",
    ),
    "scalar_argument": _file(
        "def forward(self, A, s):\n    return A * s",
        "M = 16384 * 4\nN = 4096 * 4\nfactor = 3.14",
        "torch.rand(M, N), factor",
    ),
    "softmax_3d": _file(
        "def __init__(self, dim):\n    super().__init__()\n    self.dim = dim\n\n"
        "def forward(self, x):\n    return torch.softmax(x, dim=self.dim)",
        "batch_size = 128\ndim1 = 4096\ndim2 = 4095\nreduce_dim = 1",
        "torch.rand(batch_size, dim1, dim2)",
        "reduce_dim",
    ),
    "several_outputs": _file(
        "def forward(self, x):\n    values, places = torch.max(x, dim=1)\n    return values, places, x.sum(dim=1)",
        "batch_size = 32768\nfeatures = 65535",
        "torch.rand(batch_size, features)",
    ),
    "dict_output": _file(
        "def forward(self, x):\n    return {'low': x.amin(-1), 'high': x.amax(-1)}",
        "rows = 65536\ncolumns = 8192",
        "torch.randn(rows, columns)",
    ),
    "argmin_integer_output": _file(
        "def forward(self, x):\n    return torch.argmin(x, dim=1)",
        "batch_size = 128\ndim1 = 4096\ndim2 = 4095",
        "torch.rand(batch_size, dim1, dim2)",
    ),
    "loss_to_a_scalar": _file(
        "def forward(self, predictions, targets):\n"
        "    return torch.mean(torch.clamp(1 - predictions * targets, min=0))",
        "batch_size = 32768\ninput_shape = (32768,)",
        "torch.rand(batch_size, *input_shape), torch.randint(0, 2, (batch_size,)).float() * 2 - 1",
    ).replace("predictions * targets", "predictions * targets[:, None]"),
    "cross_entropy_integer_input": _file(
        "def forward(self, predictions, targets):\n    return F.cross_entropy(predictions, targets)",
        "batch_size = 32768\nnum_classes = 4096",
        "torch.rand(batch_size, num_classes), torch.randint(0, num_classes, (batch_size,))",
    ),
    "embedding": _file(
        "def __init__(self, words, width):\n    super().__init__()\n    self.table = nn.Embedding(words, width)\n\n"
        "def forward(self, tokens):\n    return self.table(tokens)",
        "vocabulary = 250000\nwidth = 8192\nbatch, length = 64, 2048",
        "torch.randint(0, vocabulary, (batch, length))",
        "vocabulary, width",
    ),
    "masked_sum_bool_input": _file(
        "def forward(self, x, mask):\n    return torch.cumsum(x * mask, dim=1)",
        "batch_size = 32768\ninput_shape = (32768,)",
        "torch.rand(batch_size, *input_shape), torch.randint(0, 2, (batch_size, *input_shape)).bool()",
    ),
    "conv2d": _file(
        "def __init__(self, cin, cout, kernel):\n    super().__init__()\n"
        "    self.conv = nn.Conv2d(cin, cout, kernel, stride=2, padding=1)\n\n"
        "def forward(self, x):\n    return self.conv(x)",
        "batch_size = 16\nin_channels = 64\nout_channels = 128\nkernel_size = (3, 5)\nheight = width = 512",
        "torch.rand(batch_size, in_channels, height, width)",
        "in_channels, out_channels, kernel_size",
    ),
    "conv_transpose3d_norm": _file(
        "def __init__(self, cin, cout, kernel, stride, padding, shape):\n    super().__init__()\n"
        "    self.conv = nn.ConvTranspose3d(cin, cout, kernel, stride=stride, padding=padding)\n"
        "    self.norm = nn.LayerNorm(shape)\n\n"
        "def forward(self, x):\n    return F.gelu(self.norm(self.conv(x)))",
        "batch_size = 32\nin_channels = 32\nout_channels = 64\nD, H, W = 16, 32, 32\nkernel_size = 4\nstride = 2\n"
        "padding = 1\nshape = (out_channels,)",
        "torch.rand(batch_size, in_channels, D, H, W)",
        "in_channels, out_channels, kernel_size, stride, padding, shape",
    ),
    "conv_bias_shape": _file(
        "def __init__(self, cin, cout, kernel, bias_shape):\n    super().__init__()\n"
        "    self.conv = nn.Conv2d(cin, cout, kernel)\n    self.bias = nn.Parameter(torch.randn(bias_shape))\n\n"
        "def forward(self, x):\n    return torch.relu(self.conv(x)) + self.bias",
        "batch_size = 128\nin_channels  = 64\nout_channels = 128\nheight = width = 128\nkernel_size = 3\n"
        "bias_shape = (out_channels, 1, 1)",
        "torch.rand(batch_size, in_channels, height, width)",
        "in_channels, out_channels, kernel_size, bias_shape",
    ),
    "pooling": _file(
        "def __init__(self, k):\n    super().__init__()\n"
        "    self.pool = nn.MaxPool2d(k, stride=2, padding=1, dilation=3)\n\n"
        "def forward(self, x):\n    return self.pool(x)",
        "batch_size = 32\nchannels = 64\nheight = 512\nwidth = 512\nkernel = 4",
        "torch.rand(batch_size, channels, height, width)",
        "kernel",
    ),
    "group_norm": _file(
        "def __init__(self, features, groups):\n    super().__init__()\n"
        "    self.norm = nn.GroupNorm(num_groups=groups, num_channels=features)\n\n"
        "def forward(self, x):\n    return self.norm(x)",
        "batch_size = 112\nfeatures = 64\nnum_groups = 8\ndim1 = 512\ndim2 = 512",
        "torch.rand(batch_size, features, dim1, dim2)",
        "features, num_groups",
    ),
    "gemm_batch_norm_buffers": _file(
        "def __init__(self, fin, fout):\n    super().__init__()\n    self.gemm = nn.Linear(fin, fout)\n"
        "    self.bn = nn.BatchNorm1d(fout)\n    self.scale = nn.Parameter(torch.ones(1))\n\n"
        "def forward(self, x):\n    return torch.softmax(self.scale * self.bn(self.gemm(x)), dim=1)",
        "batch_size = 1024\nin_features = 8192\nout_features = 8192",
        "torch.rand(batch_size, in_features)",
        "in_features, out_features",
    ),
    "chain_of_scalars": _file(
        "def __init__(self, fin, fout, multiplier, slope, bounds):\n    super().__init__()\n"
        "    self.gemm = nn.Linear(fin, fout, bias=False)\n    self.multiplier = multiplier\n"
        "    self.act = nn.LeakyReLU(slope)\n    self.low, self.high = bounds\n\n"
        "def forward(self, x):\n    return torch.clamp(self.act(self.gemm(x) * self.multiplier), self.low, self.high)",
        "batch_size = 1024\nin_features  = 8192  \nout_features = 8192\nmultiplier = 2.0\nslope = 0.1\n"
        "bounds = [-1.5, 1.5]",
        "torch.rand(batch_size, in_features)",
        "in_features, out_features, multiplier, slope, bounds",
    ),
    "attention_heads": _file(
        "def __init__(self, width, heads):\n    super().__init__()\n    self.heads = heads\n"
        "    self.qkv = nn.Linear(width, 3 * width)\n    self.out = nn.Linear(width, width)\n\n"
        "def forward(self, x):\n    b, t, c = x.shape\n    q, k, v = self.qkv(x).split(c, dim=2)\n"
        "    q, k, v = (m.view(b, t, self.heads, c // self.heads).transpose(1, 2) for m in (q, k, v))\n"
        "    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
        "    return self.out(y.transpose(1, 2).reshape(b, t, c))",
        "batch_size = 128\nseq_len = 512\nn_embd = 768\nn_head = 12",
        "torch.rand(batch_size, seq_len, n_embd)",
        "n_embd, n_head",
    ),
    "asserted_relation": _file(
        "def __init__(self, hidden, heads, head_dim):\n    super().__init__()\n    assert hidden == heads * head_dim\n"
        "    self.heads = heads\n\n"
        "def forward(self, x):\n    return x.view(x.shape[0], self.heads, -1).softmax(-1).flatten(1)",
        "batch = 8192\nhidden = 8192\nheads = 64\nhead_dim = 128",
        "torch.randn(batch, hidden)",
        "hidden, heads, head_dim",
    ),
    "rnn_cell": _file(
        "def __init__(self, fin, hidden, fout):\n    super().__init__()\n"
        "    self.i2h = nn.Linear(fin + hidden, hidden)\n    self.h2o = nn.Linear(hidden, fout)\n"
        "    self.hidden = torch.randn((rows, hidden))\n\n"
        "def forward(self, x):\n    hidden = torch.tanh(self.i2h(torch.cat((x, self.hidden), dim=1)))\n"
        "    return self.h2o(hidden)",
        "rows = 256\ninput_size = 16384\nhidden_size = 16384\noutput_size = 8192",
        "torch.randn(rows, input_size)",
        "input_size, hidden_size, output_size",
    ),
    "lstm": _file(
        "def __init__(self, fin, hidden, layers):\n    super().__init__()\n"
        "    self.lstm = nn.LSTM(fin, hidden, layers, batch_first=True, dropout=0.3)\n"
        "    self.fc = nn.Linear(hidden, 10)\n\n"
        "def forward(self, x):\n    out, state = self.lstm(x)\n    return self.fc(out[:, -1, :])",
        "batch_size = 10\nsequence_length = 512\ninput_size = 128\nhidden_size = 256\nnum_layers = 6",
        "torch.rand(batch_size, sequence_length, input_size)",
        "input_size, hidden_size, num_layers",
    ),
    "mlp_from_a_list": _file(
        "def __init__(self, fin, widths, fout):\n    super().__init__()\n    layers = []\n    for width in widths:\n"
        "        layers += [nn.Linear(fin, width), nn.ReLU()]\n        fin = width\n"
        "    self.network = nn.Sequential(*layers, nn.Linear(fin, fout))\n\n"
        "def forward(self, x):\n    return self.network(x)",
        "batch_size = 128\ninput_size = 16384\nlayer_sizes = [16384, 16384]\noutput_size = 8192",
        "torch.rand(batch_size, input_size)",
        "input_size, layer_sizes, output_size",
    ),
    "dict_of_hyperparameters": _file(
        "def __init__(self, config):\n    super().__init__()\n"
        "    self.up = nn.Linear(config['hidden'], config['inner'])\n"
        "    self.down = nn.Linear(config['inner'], config['hidden'])\n"
        "    self.drop = nn.Dropout(config['dropout'])\n\n"
        "def forward(self, x):\n    return x + self.drop(self.down(F.silu(self.up(x))))",
        'config = {\n    "hidden": 4096,\n    "inner": 4 * 4096,\n    "dropout": 0.1,\n}\ntokens = 16384',
        'torch.randn(tokens, config["hidden"])',
        "config",
    ),
    "sizes_inside_get_inputs": _file(
        "def forward(self, x, y):\n    return torch.cdist(x, y)",
        "",
        "torch.rand(8192, 2048), torch.rand(4096, 2048)",
    ),
    "plain_tensor_attribute": _file(
        "def __init__(self, n):\n    super().__init__()\n    self.mask = torch.tril(torch.ones(n, n))\n"
        "    self.register_buffer('shift', torch.randn(n))\n\n"
        "def forward(self, x):\n    return x * self.mask + self.shift",
        "N: int = 8192\nbatch = 16",
        "torch.randn(batch, N, N)",
        "N",
    ),
    "list_of_tensors_and_none": _file(
        "def forward(self, parts, weight=None, scale: float = 2.0):\n    total = sum(parts) * scale\n"
        "    return total if weight is None else total * weight",
        "shape = (4096, 16384)\nscale = 0.5",
        "[torch.randn(shape), torch.randn(shape)], None, scale",
    ),
    "half_precision": _file(
        "def forward(self, x):\n    gate, up = x.chunk(2, dim=-1)\n    return F.silu(gate) * up",
        "tokens, d = 4096, 2 * 11008",
        "torch.randn(tokens, d, dtype=torch.bfloat16)",
    ),
    "in_place_and_name_clash": _file(
        "def __init__(self, n):\n    super().__init__()\n    self.weight = nn.Parameter(torch.ones(n))\n\n"
        "def forward(self, x, weight):\n    x.mul_(self.weight)\n    return x.add_(weight)",
        "n = 16384\nm = 32768",
        "torch.randn(m, n), torch.randn(n)",
        "n",
    ),
    "values_decide_the_path": _file(
        "def forward(self, x):\n    return x * 2 if x.sum().item() > 0 else -x",
        "n = 4099\nm = 173",
        "torch.randn(m, n)",
    ),
    "mask_of_bytes": _file(
        "def forward(self, x):\n    y = x * 2\n    y[(x > 0).byte()] = 1\n    return y",
        "n = 4099\nm = 173",
        "torch.randn(m, n)",
    ),
    "numbers_made_a_tensor": _file(
        "def forward(self, x):\n    return x * torch.Tensor([x[0, 0], x[1, 1]]).sum()",
        "n = 4099\nm = 173",
        "torch.randn(m, n)",
    ),
    "dataclass_in_and_out": _file(
        "def forward(self, batch):\n    return Batch(batch.x * batch.scale, [batch.x + 1.0])",
        "n = 8192",
        "Batch(torch.randn(n, n), [torch.randn(n)])",
        head="from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Batch:\n    x: object\n"
        "    more: list\n\n    @property\n    def scale(self):\n        return self.more[0]\n",
    ),
    "mapping_of_its_own": _file(
        "def forward(self, x):\n    return Output(first=x.exp(), second=None, third=x.mean(1))",
        "n = 8192",
        "torch.randn(n, n)",
        head="from collections import OrderedDict\n\nclass Output(OrderedDict):\n    pass\n",
    ),
    "numbers_in_the_model": _file(
        "def __init__(self):\n    super().__init__()\n    self.wide = nn.Linear(512, 2048)\n"
        "    self.back = nn.Linear(2048, 512)\n    self.softness = 20\n\n"
        "def forward(self, x):\n    return self.back(torch.tanh(self.wide(x) / self.softness))",
        "batch = 64",
        "torch.rand(batch, 512)",
    ),
    "numbers_in_forward": _file(
        "def __init__(self):\n    super().__init__()\n    self.qkv = nn.Linear(512, 1536)\n"
        "    self.out = nn.Linear(512, 512)\n\n"
        "def forward(self, x):\n    b, n, _ = x.shape\n"
        "    q, k, v = self.qkv(x).reshape(b, n, 3, 8, 64).permute(2, 0, 3, 1, 4).unbind(0)\n"
        "    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)\n"
        "    return self.out(mixed.reshape(b, n, 512)) * 100",
        "batch = 4",
        "torch.rand(batch, 128, 512)",
    ),
    "numbers_of_an_embedding": _file(
        "def __init__(self):\n    super().__init__()\n    self.rows = nn.Embedding(30000, 256)\n\n"
        "def forward(self, x):\n    return self.rows(x).sum(1)",
        "batch = 32",
        "torch.randint(0, 30000, (batch, 64))",
    ),
    "fifty_gigabytes": _file(
        "def forward(self, x):\n    return torch.relu(x)",
        "rows = 131072\ncolumns = 131072",
        "torch.rand(rows, columns)",
    ),
}

SECRET = "SECRET_PATH"
BAD = {
    "nul": ("a = 1\0\n", "nul.py: not valid Python"),
    "meta_output": (GOOD["elementwise"].replace("return F", "return x.to('meta')  #"), "on meta, which has no values"),
    "syntax_error": ("def Model(:\n", ":1: not valid Python"),
    "no_model": ("x = 3\n\ndef get_inputs():\n    return []\n", "has no Model"),
    "no_get_inputs": ("class Model: pass\n", "has no get_inputs"),
    "not_a_module": (GOOD["elementwise"].replace("(nn.Module)", ""), "not a torch.nn.Module"),
    "missing_package": ("import no_such_package_anywhere\n" + GOOD["elementwise"], "'no_such_package_anywhere'"),
    "raises": (
        GOOD["elementwise"].replace("return F", "raise ValueError('not today')  #"),
        ":8: ValueError: not today",
    ),
    "shapes_do_not_fit": (
        _file("def forward(self, a, b):\n    return a @ b", "n = 4096", "torch.rand(n, n + 1), torch.rand(n, n)"),
        "RuntimeError",
    ),
    "too_many_arguments": (
        _file("def forward(self, x):\n    return x", "n = 4096", "torch.rand(n), torch.rand(n)"),
        "does not fit forward",
    ),
    "sizes_inside_the_model": (
        _file(
            "def __init__(self):\n    super().__init__()\n    self.fc = nn.Linear(8**5, 8**5)\n\n"
            "def forward(self, x):\n    return self.fc(x)",
            "batch = 64",
            "torch.rand(batch, 8**5)",
        ),
        "cannot be reduced",
    ),
    "infinite_output": (
        _file("def forward(self, x):\n    return torch.log(x - 2)", "n = 4096", "torch.rand(n, n)"),
        "gives NaN or Inf on given inputs",
    ),
    "complex_numbers": (
        _file("def forward(self, x):\n    return torch.fft.fft(x)", "n = 8192", "torch.rand(n, n)"),
        "complex64",
    ),
    "no_tensor_output": (
        _file("def forward(self, x):\n    return 3", "n = 8192", "torch.rand(n)"),
        "returns no tensor",
    ),
    "number_among_outputs": (
        GOOD["elementwise"].replace("return F", "return x, x.shape[0]  #"),
        "forward returns the number",
    ),
    "object_with_tensors_out": (
        GOOD["elementwise"].replace("return F", "return x, Box(x)  #")
        + "\n\nclass Box:\n    def __init__(self, held):\n        self.held = held\n",
        "forward returns tensors in an object of class Box",
    ),
    "object_with_tensors_in": (
        GOOD["elementwise"].replace("return [torch.rand(batch_size, dim)", "return [Held()")
        + "\n\nclass Held:\n    def __init__(self):\n        self.x = torch.rand(3)\n",
        "get_inputs() holds tensors in an object of class Held",
    ),
    "module_of_another_name": (
        "import torch.nn as nn\nclass Gate(nn.Module):\n    pass\ndef get_inputs():\n    return []\n",
        "but the module Gate: rename it",
    ),
    "network": (
        "import socket\nsocket.create_connection(('127.0.0.1', 9))\n" + GOOD["elementwise"],
        ":2: PermissionError",
    ),
    "reads_a_secret": (f"text = open({SECRET!r}).read()\n" + GOOD["elementwise"], ":1: PermissionError"),
    "environment_key": (
        "import os\nkey = os.environ['OPENAI_API_KEY']\n" + GOOD["elementwise"],
        ":2: KeyError: 'OPENAI_API_KEY'",
    ),
    "starts_a_program": ("import os\nos.execv('/bin/true', ['true'])\n" + GOOD["elementwise"], ":2: PermissionError"),
    "forks": ("import os\nos.fork()\n" + GOOD["elementwise"], ":2: PermissionError"),
    "leaves": ("import os\nos._exit(0)\n" + GOOD["elementwise"], "ended its process"),
    "exits_politely": ("raise SystemExit(3)\n" + GOOD["elementwise"], ":1: SystemExit"),
    "endless_loop": ("while True:\n    pass\n" + GOOD["elementwise"], "ran past"),
    "real_memory": (
        "import numpy\nmuch = numpy.ones(1 << 40, dtype=numpy.uint8)\n" + GOOD["elementwise"],
        ":2: ran out of the memory",
    ),
}
