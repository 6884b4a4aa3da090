/* What documents have about devices and their operations, as structs: documents.def. */
#pragma once

#include "base/object.h"

#define RP_OBJECT_LIST "backend/documents.def"
#include "base/object_structs.inc.h"
