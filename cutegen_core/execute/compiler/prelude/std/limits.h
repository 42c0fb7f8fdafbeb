// The prelude has what <limits.h> would bring to a kernel.
#pragma once
