// The native view of `Step`: everything that changes between steps, as pointers into stable
// buffers.
#pragma once

#include <cstdint>

namespace octavo {

struct StepView {
  int32_t num_tokens = 0;      // rows of kind kTokens: all tokens of all sequences, flattened
  int32_t num_sequences = 0;   // rows of kind kSequences
  int32_t num_logit_rows = 0;  // rows of kind kLogits

  const int32_t* token_ids = nullptr;        // [num_tokens]
  const int32_t* positions = nullptr;        // [num_tokens]
  const int32_t* token_sequences = nullptr;  // [num_tokens] index of the sequence of a token
  const int64_t* slots = nullptr;            // [num_tokens, num_page_groups] page * kPageTokens +
                                             // offset in page
  const int32_t* query_starts = nullptr;     // [num_sequences + 1] first token row of each
  const int32_t* context_lengths = nullptr;  // [num_sequences] tokens in pages after this step
  // [num_sequences, page_table_stride]: for each kPageTokens tokens the page of each group of
  // layers. Entries of pages that no row of the step sees may be negative.
  const int32_t* page_tables = nullptr;
  int64_t page_table_stride = 0;
  int64_t num_page_groups = 1;
  const int32_t* logit_rows = nullptr;  // [num_logit_rows] token rows that need logits

  int32_t rows(int kind) const {
    return kind == 0 ? num_tokens : kind == 1 ? num_sequences : num_logit_rows;
  }
};

}  // namespace octavo
