// The prelude has what <math.h> would bring to a kernel.
#pragma once
