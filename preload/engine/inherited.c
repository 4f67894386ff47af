/* The list of package inherit. */
#include "engine.h"

int32_t softrdma_engine_inherited[INHERITED];
