"""The export formats, in the order of the menu. To add one: its module, and a line in `_FORMATS`."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen_core.share.exports.cu import cu_file, write_cu
from cutegen_core.share.exports.extension import write_project
from cutegen_core.share.exports.flashinfer import solution
from cutegen_core.share.exports.format import Format, OfKernel, OfSession, text_file
from cutegen_core.share.exports.html import write_document
from cutegen_core.share.exports.library.project import write_library
from cutegen_core.share.exports.modelnew import cuda_source, modelnew_file
from cutegen_core.share.exports.recording import write_recording
from cutegen_core.share.exports.torch_binding import among_others, self_contained

_FORMATS = (
    Format("modelnew", "a KernelBench ModelNew file", ".py", OfKernel(text_file(modelnew_file), cuda_source)),
    Format("cu", "a standalone .cu with a host launcher and a main", ".cu", OfKernel(write_cu, cu_file)),
    Format("extension", "a torch extension project, as a folder or a .zip", ".zip",
           OfKernel(write_project, self_contained)),
    Format("library", "back into the library: drop-in .cu, torch operator, patch and check, a folder or a .zip", ".zip",
           OfKernel(write_library, among_others)),
    Format("flashinfer", "a flashinfer-bench Solution", ".json", OfKernel(text_file(solution), self_contained)),
    Format("jsonl", "the trajectory with everything it names, compressed as .gz", ".jsonl.gz",
           OfSession(write_recording, "events and every text they name")),
    Format("html", "a presentation that opens anywhere", ".html",
           OfSession(write_document, "no network, no other files")),
)  # fmt: skip
FORMATS: Mapping[str, Format] = {found.key: found for found in _FORMATS}
