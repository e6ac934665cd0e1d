//! An expression as steps of a small stack machine.

/// A variable of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    N,
    Rate,
    Rate1,
    Speedup,
    Weight,
    Priority,
    MinNodes,
    MaxNodes,
    SamplesLeft,
}

impl Variable {
    /// All of them, in the order of [`Values`].
    pub(super) const ALL: [(&'static str, Self); 9] = [
        ("n", Self::N),
        ("rate", Self::Rate),
        ("rate1", Self::Rate1),
        ("speedup", Self::Speedup),
        ("weight", Self::Weight),
        ("priority", Self::Priority),
        ("min_nodes", Self::MinNodes),
        ("max_nodes", Self::MaxNodes),
        ("samples_left", Self::SamplesLeft),
    ];
}

/// The values of the variables.
pub(super) type Values = [f64; Variable::ALL.len()];

/// A function or an operator, and how many values it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Negate,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Min,
    Max,
    Abs,
    Sqrt,
    Exp,
    Ln,
    Log2,
    Floor,
    Ceil,
    If,
}

impl Function {
    /// Those that are called by name.
    pub(super) const NAMED: [(&'static str, Self); 10] = [
        ("min", Self::Min),
        ("max", Self::Max),
        ("abs", Self::Abs),
        ("sqrt", Self::Sqrt),
        ("exp", Self::Exp),
        ("ln", Self::Ln),
        ("log2", Self::Log2),
        ("floor", Self::Floor),
        ("ceil", Self::Ceil),
        ("if", Self::If),
    ];

    /// Number of arguments.
    pub(super) const fn takes(self) -> usize {
        match self {
            Self::Negate
            | Self::Abs
            | Self::Sqrt
            | Self::Exp
            | Self::Ln
            | Self::Log2
            | Self::Floor
            | Self::Ceil => 1,
            Self::If => 3,
            _ => 2,
        }
    }

    fn apply(self, [a, b, c]: [f64; 3]) -> f64 {
        let truth = |holds: bool| f64::from(u8::from(holds));
        match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            Self::Power => a.powf(b),
            Self::Negate => -a,
            Self::Less => truth(a < b),
            Self::LessOrEqual => truth(a <= b),
            Self::Greater => truth(a > b),
            Self::GreaterOrEqual => truth(a >= b),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::Abs => a.abs(),
            Self::Sqrt => a.sqrt(),
            Self::Exp => a.exp(),
            Self::Ln => a.ln(),
            Self::Log2 => a.log2(),
            Self::Floor => a.floor(),
            Self::Ceil => a.ceil(),
            Self::If => {
                if a > 0.0 {
                    b
                } else {
                    c
                }
            }
        }
    }
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// Puts a number on the stack.
    Number(f64),
    /// Puts the value of a variable on the stack.
    Value(Variable),
    /// Takes values off the stack and puts the result there.
    Call(Function),
}

/// Runs the steps; nothing left on the stack, which the reader rules out, gives not-a-number.
pub(super) fn run(steps: &[Step], values: &Values, stack: &mut Vec<f64>) -> f64 {
    stack.clear();
    for step in steps {
        let result = match *step {
            Step::Number(number) => number,
            Step::Value(variable) => values.get(variable as usize).copied().unwrap_or(f64::NAN),
            Step::Call(function) => {
                let mut arguments = [f64::NAN; 3];
                for argument in arguments.iter_mut().take(function.takes()).rev() {
                    *argument = stack.pop().unwrap_or(f64::NAN);
                }
                function.apply(arguments)
            }
        };
        stack.push(result);
    }
    stack.pop().unwrap_or(f64::NAN)
}
