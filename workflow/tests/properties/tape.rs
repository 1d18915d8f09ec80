//! Chance that can be shrunk: a tape of numbers, read from the front; past its end there are only zeros.
//!
//! Every choice of a case reads the next number, and zero is the simplest choice. So a shorter tape, or one with
//! smaller numbers, is a simpler case, and proptest can shrink any failing case by shrinking its tape.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Most numbers of a tape.
const LONGEST: usize = 1_500;

/// Most tries to make a failing case simpler; `ORBIT_PROPERTY_TRIES=n` says another number.
const TRIES: usize = 400;

fn tries() -> usize {
    std::env::var("ORBIT_PROPERTY_TRIES").map_or(TRIES, |text| text.parse().expect("ORBIT_PROPERTY_TRIES is a number"))
}

/// A tape that is being read.
#[derive(Clone, Debug)]
pub struct Tape {
    numbers: Vec<u32>,
    at: usize,
}

impl Tape {
    pub fn new(numbers: Vec<u32>) -> Self {
        Self { numbers, at: 0 }
    }

    fn next(&mut self) -> u32 {
        let number = self.numbers.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        number
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end.max(1)
    }

    /// A number from `first` to `last`.
    pub fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// True in so many of a hundred cases; never past the end of the tape.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of them.
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// Runs `case` on the tape of `seed`; a failing one is shrunk, and the simplest failure is given with its tape.
pub fn run(seed: u64, case: impl Fn(Tape) -> Result<(), String>) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut tree = vec(any::<u32>(), 0..=LONGEST).new_tree(&mut runner).expect("no filter refuses a tape");
    let Err(mut simplest) = case(Tape::new(tree.current())) else { return Ok(()) };
    println!("seed {seed} fails and is made simpler: {}", simplest.lines().take(3).collect::<Vec<_>>().join(" "));
    for _ in 0..tries() {
        match case(Tape::new(tree.current())) {
            Err(failure) => {
                simplest = failure;
                if !tree.simplify() {
                    break;
                }
            }
            Ok(()) => {
                if !tree.complicate() {
                    break;
                }
            }
        }
    }
    Err(simplest)
}
