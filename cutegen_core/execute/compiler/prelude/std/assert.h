// The prelude has what <assert.h> would bring to a kernel.
#pragma once
