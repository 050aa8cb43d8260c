"""From a quantised network and a plan to a training program: one pass a file.

The order, and why:

1. `lower`: network operators become forward instructions; weights are cut into trained and frozen
   blocks, so everything after it deals in instructions only.
2. `autodiff`: appends the loss, the errors of all tensors and the updates of the plan.
3. `prune`: drops what no update needs: errors, masks, saved channels. Sparse update is nothing but
this.
4. `reorder`: moves each update right behind the error that feeds it, so that both can be forgotten.
5. `recompute`, only where the SRAM asks for it: forward instructions run again in the backward pass
   instead of keeping what they made. `prune` then drops what is not needed any more.
6. `scratch`: gives instructions memory to work in, which `prune` would take for dead.
7. `stream`: runs parts of the forward pass row by row. It must know what the backward pass still
   reads, and when, so it comes last.
"""
