// Sorting by natural runs: stretches of rows that ascend already are found with one comparison a row, put in the order of
// their first keys, and merged where they overlap. Where there are too many for that, everything is sorted as a whole.
// W-7: of equal keys the highest sequence, then the later index, comes last; survey.cpp keeps that one.
#include "order.h"

#include <algorithm>

namespace segment {

namespace {

// With fewer rows a run on average, merging is no faster than sorting (bench/seals.ts).
constexpr size_t RUN_ROWS = 10;

struct Run {
  size_t from, to;
};

// The whole order: no two items are equal in it.
struct Before {
  const std::vector<Key>& keys;

  bool operator()(const Item& a, const Item& b) const {
    const int order = compare_keys(a, b, keys);
    if (order != 0) return order < 0;
    const double x = keys[a.row].sequence, y = keys[b.row].sequence;
    return x != y ? x < y : a.row < b.row;
  }
};

class Sorter {
 public:
  Sorter(std::vector<Item>& items, const std::vector<Key>& keys) : items_(items), before_{keys} {}

  void sort() {
    if (!find_runs()) return std::sort(items_.begin(), items_.end(), before_);
    if (runs_.size() == 1) return;
    spare_.resize(items_.size());
    line_up();
    while (runs_.size() > 1) merge_pairs();
  }

 private:
  // False, early, where runs are short.
  bool find_runs() {
    const size_t runs_max = items_.size() / RUN_ROWS + 1;
    for (size_t from = 0; from < items_.size();) {
      if (runs_.size() == runs_max) return false;
      size_t to = from + 1;
      while (to < items_.size() && !before_(items_[to], items_[to - 1])) to++;
      runs_.push_back({from, to});
      from = to;
    }
    return true;
  }

  // Copies the runs into the order of their first items. Those that follow each other become one.
  void line_up() {
    std::sort(runs_.begin(), runs_.end(),
              [this](const Run& a, const Run& b) { return before_(items_[a.from], items_[b.from]); });
    std::vector<Run> lined;
    size_t at = 0;
    for (const Run& run : runs_) {
      const bool follows = at > 0 && !before_(items_[run.from], spare_[at - 1]);
      std::copy(items_.begin() + run.from, items_.begin() + run.to, spare_.begin() + at);
      if (!follows) lined.push_back({at, at});
      at += run.to - run.from;
      lined.back().to = at;
    }
    items_.swap(spare_);
    runs_.swap(lined);
  }

  // Each two neighbours become one. What is before the second one's first item, or behind the first one's last, is copied.
  void merge_pairs() {
    size_t merged = 0;
    for (size_t r = 0; r < runs_.size(); r += 2) {
      const auto at = [this](size_t index) { return items_.begin() + static_cast<ptrdiff_t>(index); };
      const auto a = at(runs_[r].from), a_end = at(runs_[r].to);
      const size_t end = r + 1 < runs_.size() ? runs_[r + 1].to : runs_[r].to;
      const auto b = a_end, b_end = at(end);
      const auto to = spare_.begin() + (a - items_.begin());
      const auto overlap = b == b_end ? a_end : std::upper_bound(a, a_end, *b, before_);
      std::merge(overlap, a_end, b, b_end, std::copy(a, overlap, to), before_);
      runs_[merged++] = {runs_[r].from, end};
    }
    runs_.resize(merged);
    items_.swap(spare_);
  }

  std::vector<Item>& items_;
  const Before before_;
  std::vector<Item> spare_;
  std::vector<Run> runs_;
};

}  // namespace

void sort_items(std::vector<Item>& items, const std::vector<Key>& keys) { Sorter(items, keys).sort(); }

}  // namespace segment
