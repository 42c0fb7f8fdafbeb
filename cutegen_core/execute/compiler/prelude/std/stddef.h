// The prelude has what <stddef.h> would bring to a kernel.
#pragma once
