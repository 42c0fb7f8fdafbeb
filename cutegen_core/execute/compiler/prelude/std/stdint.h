// The prelude has what <stdint.h> would bring to a kernel.
#pragma once
