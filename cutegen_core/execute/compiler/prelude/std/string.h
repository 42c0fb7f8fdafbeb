// The prelude has what <string.h> would bring to a kernel.
#pragma once
