/*
 * Communication alone: groups, collectives and messages, without tensors.
 *
 * The library liblockstep-comm offers everything that this header includes, and
 * nothing else: link with `pkg-config --libs lockstep-comm`, or lockstep::comm
 * of CMake's find_package(lockstep). lockstep.h includes it, too.
 */
#ifndef LOCKSTEP_COMM_H
#define LOCKSTEP_COMM_H

#include "lockstep/bits.h"
#include "lockstep/group.h"
#include "lockstep/log.h"
#include "lockstep/profile.h"
#include "lockstep/status.h"
#include "lockstep/types.h"
#include "lockstep/version.h"

#endif
