/*
 * Lockstep: data-parallel training in C.
 *
 * N processes hold the same model, each sees its own slice of the data, and
 * after every backward pass they agree on one gradient. Read in this order:
 *
 *   comm.h                       what communicates, which is:
 *   status.h types.h version.h   errors, element types
 *   group.h                      process groups and collectives
 *   profile.h log.h              memory use, log lines
 *   bits.h                       results with the same bits everywhere
 *
 *   tensor.h params.h            tensors; parameters, and saving them
 *   autograd.h nn.h              the tape, layers
 *   dlpack.h                     tensors of NumPy, PyTorch and others
 *   attention.h                  attention without the score matrix
 *   transformer.h vision.h       language models, networks for images
 *   optim.h data.h               optimizers, datasets
 *   parallel.h                   gradients and batch norm over all ranks
 *   checkpoint.h                 saving a run and resuming it
 *   tokenizer.h                  text to tokens and back
 *   threads.h                    how many threads compute
 *
 * examples/mlp.c puts them together in a hundred lines.
 *
 * Naming: ..._free frees what ..._new makes, and ..._close closes what
 * ..._open opens, a tokenizer also if it was trained. The object that a
 * function makes or works on is its first argument; other outputs are its last.
 * ..._get_... is in a name whose short form is a type.
 *
 * An array is followed by the size_t number of its items: (items, n). Only a
 * shape stands after its int ndim. A bool argument is what a setter sets or a
 * fact that the caller passes on; other choices are flags.
 *
 * Collectives have three marks of a variant. i (ls_iall_reduce) returns at once
 * with a request. v (ls_all_gatherv) has a count for each rank, as in MPI.
 * _premul multiplies each rank's data by a factor, as NCCL's PreMulSum. Other
 * variants are options or arguments of one function.
 *
 * Options: a pointer to a struct that begins with struct_size; NULL means the
 * defaults. A member of 0 means its default, or 0 where 0 is a setting, such as
 * a momentum. LS_..._INIT has all defaults. Members without a default, such as
 * the size of a loader's batch, are 0 in it, which is refused
 * (docs/reference/abi.md).
 */
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include "lockstep/attention.h"
#include "lockstep/audit.h"
#include "lockstep/autograd.h"
#include "lockstep/checkpoint.h"
#include "lockstep/comm.h"
#include "lockstep/data.h"
#include "lockstep/dlpack.h"
#include "lockstep/nn.h"
#include "lockstep/optim.h"
#include "lockstep/parallel.h"
#include "lockstep/params.h"
#include "lockstep/tensor.h"
#include "lockstep/threads.h"
#include "lockstep/tokenizer.h"
#include "lockstep/transformer.h"
#include "lockstep/vision.h"

#endif
