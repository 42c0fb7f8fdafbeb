// The prelude has what <float.h> would bring to a kernel.
#pragma once
