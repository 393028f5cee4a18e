// LLVM's disassembler. It gives its MCInst and the facts of its tables about it. llvm.rs loads this
// code and has the same structures.
#include <llvm/Config/llvm-config.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstrDesc.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#if LLVM_VERSION_MAJOR >= 16
#include <llvm/TargetParser/Triple.h>
#else
#include <llvm/ADT/Triple.h>
#endif
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

using namespace llvm;

// Kinds of registers.
enum Kind : uint8_t { NONE, GENERAL64, GENERAL, VECTOR, MASK, POINTER, SEGMENT, SYSTEM, CONTROL, TILE, OTHER, GENERAL32 };

struct Name { uint8_t kind, number; };

struct Memory {
    Name base, index;
    uint8_t scale;
    uint8_t segment; // 0 flat, 1 fs, 2 gs
    int32_t displacement;
};

struct Answer {
    uint8_t length, flow, memories, loads, stores, masks;
    uint16_t general, control;
    uint32_t vectors;
    int64_t distance;
    Memory memory[2];
};

// As in reading.rs.
enum Flow : uint8_t { NEXT, CONDITIONAL, JUMP, CALL, INDIRECT_JUMP, INDIRECT_CALL, RETURN, TRAP, OTHER_FLOW };
enum Control : uint16_t { STACK = 1, SEGMENTS = 2, STATE = 4, MXCSR = 8, DIRECTION = 16, TILES = 64 };

static int position(StringRef name, std::initializer_list<const char *> names) {
    int i = 0;
    for (const char *each : names) {
        if (name == each) return i;
        i++;
    }
    return -1;
}

static Name named(StringRef name) {
    auto make = [](Kind kind, int number) { return Name{kind, uint8_t(number)}; };
    int n;
    unsigned number;
    if ((n = position(name, {"RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI"})) >= 0) return make(GENERAL64, n);
    if ((n = position(name, {"EAX", "ECX", "EDX", "EBX", "ESP", "EBP", "ESI", "EDI"})) >= 0) return make(GENERAL32, n);
    if ((n = position(name, {"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI"})) >= 0) return make(GENERAL, n);
    if ((n = position(name, {"AL", "CL", "DL", "BL", "SPL", "BPL", "SIL", "DIL"})) >= 0) return make(GENERAL, n);
    if ((n = position(name, {"AH", "CH", "DH", "BH"})) >= 0) return make(GENERAL, n);
    if (position(name, {"RIP", "EIP", "IP"}) >= 0) return make(POINTER, 0);
    if (position(name, {"RIZ", "EIZ"}) >= 0) return make(NONE, 0);
    if ((n = position(name, {"ES", "CS", "SS", "DS", "FS", "GS", "FS_BASE", "GS_BASE"})) >= 0) return make(SEGMENT, n);
    if (name == "MXCSR") return make(CONTROL, MXCSR);
    if (name == "DF") return make(CONTROL, DIRECTION);
    if (position(name, {"EFLAGS", "_EFLAGS", "FPSW", "FPCW", "HIP", "SSP"}) >= 0) return make(OTHER, 0);
    StringRef rest = name;
    auto tail = [&](const char *head) { rest = name; return rest.consume_front(head) && !rest.getAsInteger(10, number); };
    if (tail("XMM") || tail("YMM") || tail("ZMM")) return make(VECTOR, number);
    if (tail("TMM")) return make(TILE, number);
    if (tail("MM") || tail("ST") || tail("FP")) return make(OTHER, number);
    if (tail("CR") || tail("DR")) return make(SYSTEM, number);
    if (tail("K")) return make(MASK, number);
    if (name.startswith("R")) {
        rest = name.drop_front();
        StringRef digits = rest.take_while([](char c) { return c >= '0' && c <= '9'; });
        StringRef suffix = rest.drop_front(digits.size());
        if (!digits.getAsInteger(10, number)) {
            return make(suffix.empty() ? GENERAL64 : suffix == "D" ? GENERAL32 : GENERAL, number);
        }
    }
    return make(SYSTEM, 0);
}

struct Shared {
    const Target *target;
    std::unique_ptr<MCRegisterInfo> registers;
    std::unique_ptr<MCAsmInfo> assembler;
    std::unique_ptr<MCSubtargetInfo> subtarget;
    std::unique_ptr<MCInstrInfo> instructions;
    Triple triple;
    std::vector<Name> names;
};

struct Decoder {
    Shared *shared;
    std::unique_ptr<MCContext> context;
    std::unique_ptr<MCDisassembler> disassembler;
};

static Shared *make() {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86Disassembler();
    auto *shared = new Shared();
    std::string error, name = "x86_64-unknown-linux-gnu";
    shared->triple = Triple(name);
    shared->target = TargetRegistry::lookupTarget(name, error);
    if (!shared->target) return nullptr;
    shared->registers.reset(shared->target->createMCRegInfo(name));
    shared->assembler.reset(shared->target->createMCAsmInfo(*shared->registers, name, MCTargetOptions()));
    shared->subtarget.reset(shared->target->createMCSubtargetInfo(name, "", ""));
    shared->instructions.reset(shared->target->createMCInstrInfo());
    for (unsigned i = 0; i < shared->registers->getNumRegs(); i++) {
        shared->names.push_back(i == 0 ? Name{NONE, 0} : named(shared->registers->getName(i)));
    }
    return shared;
}

extern "C" Decoder *sfi_llvm_new() {
    static Shared *shared = make();
    if (!shared) return nullptr;
    auto *decoder = new Decoder();
    decoder->shared = shared;
    decoder->context = std::make_unique<MCContext>(
        shared->triple, shared->assembler.get(), shared->registers.get(), shared->subtarget.get());
    decoder->disassembler.reset(shared->target->createMCDisassembler(*shared->subtarget, *decoder->context));
    return decoder;
}

extern "C" void sfi_llvm_free(Decoder *decoder) { delete decoder; }

static void write(Answer &answer, Name name) {
    switch (name.kind) {
    case GENERAL64: case GENERAL32: case GENERAL:
        if (name.number == 4) answer.control |= STACK;
        else answer.general |= 1u << name.number;
        break;
    case VECTOR: answer.vectors |= 1u << name.number; break;
    case MASK: answer.masks |= 1u << name.number; break;
    case SEGMENT: answer.control |= SEGMENTS; break;
    case SYSTEM: answer.control |= STATE; break;
    case CONTROL: answer.control |= name.number; break;
    case TILE: answer.control |= TILES; break;
    default: break;
    }
}

static uint8_t segment(Name name) {
    if (name.kind != SEGMENT) return 0;
    return name.number == 4 ? 1 : name.number == 5 ? 2 : 0;
}

// Returns 1 if these bytes begin with an instruction.
extern "C" int sfi_llvm_read(Decoder *decoder, const uint8_t *bytes, uint64_t size, Answer *out) {
    Shared &shared = *decoder->shared;
    MCInst inst;
    uint64_t length = 0;
    ArrayRef<uint8_t> text(bytes, size);
    // Some prefixes are instructions of their own.
    uint64_t prefixes = 0;
    do {
        prefixes += length;
        inst.clear();
        auto status = decoder->disassembler->getInstruction(inst, length, text.drop_front(prefixes), 0, nulls());
        if (status != MCDisassembler::Success) return 0;
    } while (shared.instructions->getName(inst.getOpcode()).endswith("_PREFIX"));
    Answer answer = {};
    const MCInstrDesc &desc = shared.instructions->get(inst.getOpcode());
    StringRef name = shared.instructions->getName(inst.getOpcode());
    auto reg = [&](unsigned i) { return i < inst.getNumOperands() && inst.getOperand(i).isReg() ? shared.names[inst.getOperand(i).getReg()] : Name{NONE, 0}; };
    auto memory = [&](Name base, unsigned segments) {
        if (answer.memories < 2) answer.memory[answer.memories] = Memory{base, {NONE, 0}, 1, segment(reg(segments)), 0};
        return answer.memories++;
    };
    answer.length = prefixes + length;
#if LLVM_VERSION_MAJOR >= 17
    auto infos = desc.operands();
    auto info = [&](unsigned i) -> const MCOperandInfo & { return infos[i]; };
    for (MCPhysReg each : desc.implicit_defs()) write(answer, shared.names[each]);
#else
    auto info = [&](unsigned i) -> const MCOperandInfo & { return desc.OpInfo[i]; };
    for (const MCPhysReg *each = desc.getImplicitDefs(); each && *each; each++) write(answer, shared.names[*each]);
#endif
    for (unsigned i = 0; i < desc.getNumDefs(); i++) write(answer, reg(i));
    bool strings = false;
    // The operands of string instructions are pointers and a segment, not the five operands of an
    // address.
    if (name.startswith("MOVS") && position(name, {"MOVSB", "MOVSW", "MOVSL", "MOVSQ"}) >= 0) {
        memory(reg(0), 99), memory(reg(1), 2), answer.loads = 2, answer.stores = 1, strings = true;
    } else if (position(name, {"STOSB", "STOSW", "STOSL", "STOSQ"}) >= 0) {
        memory(reg(0), 99), answer.stores = 1, strings = true;
    } else if (position(name, {"LODSB", "LODSW", "LODSL", "LODSQ"}) >= 0) {
        memory(reg(0), 1), answer.loads = 1, strings = true;
    } else if (position(name, {"SCASB", "SCASW", "SCASL", "SCASQ"}) >= 0) {
        memory(reg(0), 99), answer.loads = 1, strings = true;
    } else if (position(name, {"CMPSB", "CMPSW", "CMPSL", "CMPSQ"}) >= 0) {
        memory(reg(1), 99), memory(reg(0), 2), answer.loads = 3, strings = true;
    }
    bool address = name.startswith("LEA") && name != "LEAVE64";
    for (unsigned i = 0; !strings && i + 4 < desc.getNumOperands(); i++) {
        bool found = address ? i == 1 : info(i).OperandType == MCOI::OPERAND_MEMORY;
        if (!found || i + 5 > inst.getNumOperands()) continue;
        uint8_t n = memory(reg(i), i + 4);
        if (n < 2) {
            answer.memory[n].scale = inst.getOperand(i + 1).getImm();
            answer.memory[n].index = reg(i + 2);
            answer.memory[n].displacement = inst.getOperand(i + 3).isImm() ? inst.getOperand(i + 3).getImm() : 0;
            if (answer.memory[n].index.kind == NONE) answer.memory[n].scale = 1;
            if (!address && desc.mayLoad()) answer.loads |= 1 << n;
            if (!address && desc.mayStore()) answer.stores |= 1 << n;
        }
        i += 4;
    }
    bool direct = desc.getNumOperands() > 0 && info(0).OperandType == MCOI::OPERAND_PCREL;
    if (direct && inst.getOperand(0).isImm()) answer.distance = inst.getOperand(0).getImm();
    if (desc.isReturn()) answer.flow = RETURN;
    else if (desc.isCall()) answer.flow = direct ? CALL : INDIRECT_CALL;
    else if (desc.isIndirectBranch()) answer.flow = INDIRECT_JUMP;
    else if (desc.isBranch()) answer.flow = desc.isBarrier() ? JUMP : CONDITIONAL;
    else if (position(name, {"INT3", "TRAP"}) >= 0) answer.flow = TRAP;
    else if (position(name, {"INT", "SYSCALL", "SYSENTER", "SYSRET", "INTO"}) >= 0) answer.flow = OTHER_FLOW;
    *out = answer;
    return 1;
}
