// Some twenty frames of ordinary Rust: trait objects, closures, a sort with a comparison.
use std::hint::black_box;

trait Node {
    fn visit(&self, depth: u64, values: &mut Vec<u64>) -> u64;
}

struct Leaf;

impl Node for Leaf {
    fn visit(&self, _: u64, values: &mut Vec<u64>) -> u64 {
        values.sort_by_key(|value| value ^ 77);
        values.sort_unstable();
        values.iter().map(|value| value.wrapping_mul(31)).fold(0, |sum, value| sum ^ value)
    }
}

struct Branch(Box<dyn Node>);

impl Node for Branch {
    #[inline(never)]
    fn visit(&self, depth: u64, values: &mut Vec<u64>) -> u64 {
        let mut own = values.clone();
        own[0] = own[0].wrapping_add(depth);
        let found = self.0.visit(depth + 1, &mut own);
        black_box(own);
        found.wrapping_add(depth)
    }
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut tree: Box<dyn Node> = Box::new(Leaf);
    for _ in 0..15 {
        tree = Box::new(Branch(tree));
    }
    let mut seed = 1_u64;
    let mut values: Vec<u64> = (0..400)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed
        })
        .collect();
    for round in 0..rounds {
        values[0] ^= round;
        black_box(tree.visit(0, &mut values));
    }
}
