// What memory.cpp and ipc.cpp share.
#pragma once
#include "state.h"

// The file that holds a block of a device, and where in it the block begins.
bool place_of(const void* p, int device, int& fd, uint64_t& offset);
// Note that an exported block is freed. Reports processes that still have it open.
void free_shared(Shared* entry, const void* p);
